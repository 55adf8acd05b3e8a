# The table of bench/peers/run: round,library,collective,bytes,distance,samples,median_us.
function sort(v, n,    i, j, t) {
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && v[j - 1] > v[j]; j--) {
            t = v[j]; v[j] = v[j - 1]; v[j - 1] = t
        }
}

# Of n numbers, which it sorts; the mean of the two in the middle where n is even.
function median(v, n) {
    sort(v, n)
    return (v[int((n + 1) / 2)] + v[int((n + 2) / 2)]) / 2
}

# The median of a library's rounds at a point; "": there is none.
function middle(library, point,    r, n, v) {
    n = 0
    for (r = 1; r <= rounds; r++)
        if ((r, library, point) in us)
            v[++n] = us[r, library, point]
    return n ? median(v, n) : ""
}

# "2.31 (1.90-2.55)": how many times as long as this ronda the quickest other takes, round by round.
function ratio(library, point,    r, n, v, i, t, best) {
    n = 0
    for (r = 1; r <= rounds; r++) {
        best = ""
        for (i = 1; i <= others; i++) {
            if (!((r, other[i], point) in us)) # to look at what is not there would make it
                continue
            t = us[r, other[i], point]
            best = best == "" || t + 0 < best + 0 ? t : best
        }
        if (best != "" && (r, library, point) in us && us[r, library, point] > 0)
            v[++n] = best / us[r, library, point]
    }
    if (!n)
        return "-"
    found = median(v, n)
    return sprintf("%.2f (%.2f-%.2f)", found, v[1], v[n])
}

function cell(x) {
    return x == "" ? "-" : x >= 1000 ? sprintf("%.0f", x) : x >= 10 ? sprintf("%.1f", x) : sprintf("%.2f", x)
}

{
    rounds = $1 > rounds ? $1 : rounds
    point = $3 "," $4 "," $5
    us[$1, $2, point] = $7
    if (!(point in seen)) {
        seen[point] = 1
        points[++count] = point
    }
}

END {
    others = split("openmpi,mpich,gloo", other, ",")
    line = "%-14s %10s %-4s %10s %10s %10s %10s %10s  %-20s %-20s\n"
    printf line, "collective", "bytes", "dist", "private", "allocated", "Open MPI", "MPICH", "Gloo", "ratio, private", "ratio, allocated"
    for (i = 1; i <= count; i++) {
        point = points[i]
        split(point, part, ",")
        found = 0
        one = ratio("ronda private", point)
        if (found) {
            logs[part[1]] += log(found); number[part[1]]++
        }
        printf line, part[1], part[2], part[3], cell(middle("ronda private", point)),
            cell(middle("ronda allocated", point)), cell(middle("openmpi", point)),
            cell(middle("mpich", point)), cell(middle("gloo", point)), one, ratio("ronda allocated", point)
    }
    for (name in number)
        printf "%-14s geometric mean of the private ratios: %.2f\n", name, exp(logs[name] / number[name])
}
