/* folders.h: folders with files in them, as the system's are, for tests. */
#ifndef RD_FOLDERS_H
#define RD_FOLDERS_H

#include <stdbool.h>

bool folder_make(char path[40]); /* a new one; false: the test has failed */
/* Writes a file below a folder, and makes the folders on the way. */
void folder_put(const char *base, const char *path, const char *text);
void folder_remove(const char *base); /* with all that is in it */

#endif
