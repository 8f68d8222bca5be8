#!/bin/sh
# Keeps the server of the embedded store from outliving its application; embedded_guard.py tells the protocol.
#
# Arguments: run directory, log, seconds between TERM and KILL, then the server's command line.
# stdin: the pipe from the application. stdout: the pipe to it. stderr: the lock on the data directory.
run=$1 log=$2 grace=$3
shift 3

# 4: the pipe, because a background job gets /dev/null as its stdin unless it is given another descriptor.
# 5: the lock, for this shell and the server and nobody else, so that it is free when both have ended.
exec 4<&0 5>&2 2>>"$log"
# Reporting to an application that is gone must not skip the clean-up.
trap '' PIPE

while :; do
  # Only this shell keeps stdout, so that the application sees its end when this shell is killed.
  "$@" </dev/null >&2 4<&- 5>&5 &
  server=$!

  (
    while read -r _; do :; done
    kill -TERM "$server"
    sleep "$grace"
    # If this shell was killed, nobody waits for the server, and its number may be another process by now.
    kill -0 "$$" && kill -KILL "$server"
  ) <&4 >&2 5>&- &
  watcher=$!

  wait "$server"
  code=$?

  # This shell leads a session of its own, so its process group holds only the watcher and the watcher's sleep.
  trap '' TERM
  kill -TERM 0
  wait "$watcher" 2>/dev/null
  trap - TERM

  printf '%s\n' "$code" 2>/dev/null
  read -r _ <&4 || break
done

rm -rf "$run"
exit "$code"
