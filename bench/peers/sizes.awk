# The sizes of bench/peers/run, "8,64K" in the environment, in bytes, "8,65536", since ronda bench alone reads units.
# What is none ends it with 1 and a sentence.  MPI counts elements by an int, and the drivers have room for 64 sizes.
BEGIN {
    count = split(ENVIRON["sizes"], size, ",")
    if (count > 64)
        wrong("there are more than 64")
    for (i = 1; i <= count; i++) {
        text = toupper(size[i])
        if (text !~ /^[0-9]+[BKMGT]?$/)
            wrong("'" size[i] "' is not a size such as 8, 64K, 16M or 1G")
        bytes = text * 1024 ^ index("KMGT", substr(text, length(text)))
        if (bytes < 1 || bytes > 4 * 2147483647)
            wrong("'" size[i] "' is not within 1 and 8589934588 bytes")
        list = list (i > 1 ? "," : "") sprintf("%.0f", bytes)
    }
    print list
}

function wrong(what) {
    print what
    exit 1
}
