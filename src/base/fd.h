/* fd.h: every descriptor that the library or the command makes.
 *
 * 0, 1 and 2 belong to the program, also while it has them closed: a socket with the number 1 would get what the
 * program prints.  So what a call makes goes through here, and gets a number from 3 on.  All are close-on-exec.
 *
 *     const int fd = rd_fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
 *
 * tests/house lets nobody make one in another way. */
#ifndef RD_FD_H
#define RD_FD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/* What a call has just made, or the same open file at a number from 3 on, and the other number is free again.
 * -1: errno, whether the call has failed or there is no such number to be had. */
int rd_fd(int fd);
/* Another descriptor of the same open file; -1: errno. */
int rd_fd_again(int fd);

/* As pipe2, socketpair and recvmsg; -1: errno, and nothing is left open.  The descriptors that a message brings
 * have been moved in its control data; one that could not be is -1 there. */
int rd_fd_pipe(int ends[2], int flags);
int rd_fd_pair(int ends[2], int type);
ssize_t rd_fd_receive(int fd, struct msghdr *m, int flags);

/* May a file of this process be so long (RLIMIT_FSIZE)?  What is written beyond that is a signal, which ends the
 * process, before it is an error.  false: errno is EFBIG. */
bool rd_file_fits(uint64_t bytes);

/* The beginning of a small file, such as those of /proc, and a 0 behind it.  false: it cannot be read, or is empty;
 * the text is then empty. */
bool rd_file_text(const char *path, char *text, size_t capacity);

/* Of a process: readable when it has ended.  -1: errno. */
int rd_fd_process(pid_t pid);

#endif
