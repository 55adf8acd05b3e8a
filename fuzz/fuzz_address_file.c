/* fuzz_address_file.c: the file in which rank 0 says where it is. */
#include <inttypes.h>
#include <string.h>

#include "comm/address_file.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    char text[RD_ADDRESS_FILE_TEXT] = "", ip[RD_IP_TEXT];
    rd_address_file m, again;
    if (length >= sizeof text)
        length = sizeof text - 1;
    if (length)
        memcpy(text, bytes, length);
    if (!rd_address_file_parse(text, &m))
        return 0;
    fuzz_require(m.job && m.port && m.count >= 1 && m.count <= RD_ADDRESSES,
                 "it says where rank 0 is");
    size_t at = (size_t)snprintf(text, sizeof text,
                                 "ronda 1\njob %016" PRIx64 "\nhost %016" PRIx64 "\nport %u\n",
                                 m.job, m.host, m.port);
    for (uint32_t i = 0; i < m.count; i++) {
        rd_ip_text(&m.at[i], ip);
        at += (size_t)snprintf(text + at, sizeof text - at, "at %s\n", ip);
    }
    fuzz_require(at + sizeof "end\n" <= sizeof text, "it fits its file");
    snprintf(text + at, sizeof text - at, "end\n");
    fuzz_require(rd_address_file_parse(text, &again), "it is taken again");
    fuzz_require(m.job == again.job && m.host == again.host && m.port == again.port &&
                     m.count == again.count,
                 "it stays the same");
    for (uint32_t i = 0; i < m.count; i++)
        fuzz_require(rd_ip_equal(&m.at[i], &again.at[i]) && m.at[i].scope == again.at[i].scope,
                     "its addresses stay the same");
    return 0;
}
