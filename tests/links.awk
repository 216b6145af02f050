# links.awk - awk -v root=FOLDER -f links.awk FOLDER/docs/*.html FOLDER/course/*.html
# Names each link of the course's pages that leads nowhere: to another page, to a place in one, to a page of the manual
# beside them, or to a file of the repository, two folders up. Ends with 1 if there is one, or hardly any link at all.

function target(page, to) {
    if (to ~ /^#/) return page to
    if (sub(/^\.\.\/\.\.\//, "", to)) return "./" to
    if (sub(/^\.\.\//, "", to)) return to
    return "course/" to
}

{
    page = substr(FILENAME, length(root) + 2)
    pages[page]
    for (s = $0; match(s, / id="[^"]+"/); s = substr(s, RSTART + RLENGTH)) places[page "#" substr(s, RSTART + 5, RLENGTH - 6)]
    if (page ~ /^docs/) next
    for (s = $0; match(s, / href="[^"]+"/); s = substr(s, RSTART + RLENGTH)) {
        to = substr(s, RSTART + 7, RLENGTH - 8)
        if (to ~ /^(https?|data):/) continue
        wanted[target(page, to)] = page
        links++
    }
}

END {
    for (to in wanted) {
        file = to
        sub(/#.*/, "", file)
        there = file in pages ? to == file || to in places : !system("test -e " (file ~ /^\.\// ? file : root "/" file))
        if (there) continue
        print wanted[to] ": " to
        wrong = 1
    }
    exit wrong || links < 2000
}
