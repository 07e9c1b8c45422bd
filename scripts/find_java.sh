#!/bin/sh
# Prints the JAVA_HOME of a Java 17 or newer: from $JAVA_HOME, then from PATH, then from the usual folders.
# With --install, and only as root on Debian, installs one when there is none. Otherwise one line on stderr and exit 2.
# With --jdk only a Java with its compiler will do.
set -u

install= package=openjdk-17-jre-headless what="Java 17 or newer" program=java
for argument in "$@"; do
    case $argument in
    --install) install=yes ;;
    --jdk) package=openjdk-17-jdk-headless what="Java development kit 17 or newer" program=javac ;;
    esac
done

usable() { # usable HOME: does HOME hold a Java of version 17 or newer?
    [ -x "$1/bin/java" ] && [ -x "$1/bin/$program" ] || return 1
    version=$("$1/bin/java" -version 2>&1 </dev/null | sed -n 's/.* version "\([0-9][0-9]*\).*/\1/p' | head -n 1)
    [ -n "$version" ] && [ "$version" -ge 17 ]
}

home_on_path() {
    java=$(command -v java) || return 1
    java=$(readlink -f "$java" 2>/dev/null) || return 1
    dirname "$(dirname "$java")"
}

# Oldest first: the version Spark and Kafka have been run on longest is the safest of several.
installed_homes() {
    for version in 17 21 ''; do
        for home in /usr/lib/jvm/*"$version"* /opt/java/*"$version"* /opt/jdk*"$version"* "$HOME"/.sdkman/candidates/java/*"$version"* \
            /Library/Java/JavaVirtualMachines/*"$version"*/Contents/Home; do
            [ -d "$home" ] && printf '%s\n' "$home"
        done
    done
}

find_home() {
    if [ -n "${JAVA_HOME:-}" ] && usable "$JAVA_HOME"; then
        printf '%s\n' "$JAVA_HOME"
        return 0
    fi
    if home=$(home_on_path) && usable "$home"; then
        printf '%s\n' "$home"
        return 0
    fi
    found=$(installed_homes | while IFS= read -r home; do
        if usable "$home"; then
            printf '%s\n' "$home"
            break
        fi
    done)
    [ -n "$found" ] && printf '%s\n' "$found"
}

HOME=${HOME:-/root}
find_home && exit 0
if [ -n "$install" ] && "$(dirname "$0")/apt_install.sh" "$package" >&2; then
    find_home && exit 0
fi
echo "no $what found in JAVA_HOME, PATH or the usual folders: install one (Debian: apt-get install $package) or set JAVA_HOME" >&2
exit 2
