#!/bin/sh
# Stands in for the compiler where a build is not what is tested: what has been compiled before is not compiled again.
#
#   REAL_GCC=/usr/bin/arm-none-eabi-gcc COMPILED=FOLDER compile_once.sh ARGUMENT...
#
# An object is told by the flags that decide the code, and by its preprocessed source with the paths that the compiler
# is told to leave out. Reports of stack and calls, which have these paths, go with it.

flags=$("$REAL_GCC" --version | head -n 1) forth= back= folder= name= object= before=
for one; do
  case $before in -o) object=$one ;; -dumpdir) folder=$one ;; -dumpbase) name=${one%.c} ;; esac
  case $before in
    -o | -dumpdir | -dumpbase | -dumpbase-ext | -MT | -MF | -c) ;;
    *)
      case $one in
        -ffile-prefix-map=*)
          pair=${one#*=}
          forth="${forth}s|${pair%=*}/|@${pair##*=}@|g;" back="${back}s|@${pair##*=}@|${pair%=*}/|g;"
          ;;
        -D* | -I*) ;;
        *) flags="$flags $one" ;;
      esac
      ;;
  esac
  before=$one
done
[ "$folder" ] || exec "$REAL_GCC" "$@"

preprocess() {
  for one; do
    shift
    [ "$one" = -c ] && one=-E
    set -- "$@" "$one"
  done
  "$REAL_GCC" "$@"
}
preprocess "$@" || exit
kept=$COMPILED/$({ echo "$flags"; sed "$forth" "$object"; } | sha256sum | cut -c 1-64)
if [ -e "$kept.o" ]; then
  for report in su ci; do sed "$back" "$kept.$report" >"$folder$name.$report"; done
  cp "$kept.o" "$object"
else
  "$REAL_GCC" "$@" || exit
  for report in su ci; do
    sed "$forth" "$folder$name.$report" >"$kept.$report.$$" && mv "$kept.$report.$$" "$kept.$report"
  done
  cp "$object" "$kept.o.$$" && mv "$kept.o.$$" "$kept.o"
fi
