#!/bin/sh
# Builds a driver in Java: `sh maven.sh DIRECTORY` fetches the library that its pom.xml pins and compiles it into DIRECTORY/build.
set -eu
cd "$1"
command -v javac >/dev/null || { echo "there is no javac; \`apt-get install default-jdk-headless maven\` provides it" >&2; exit 69; }
command -v mvn >/dev/null || { echo "there is no mvn; \`apt-get install maven\` provides it" >&2; exit 69; }
rm -rf build
mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies -DoutputDirectory="$PWD/build/lib"
javac -cp 'build/lib/*' -d build/classes ../../sdk/java/LocklabDriver.java ./*Driver.java
