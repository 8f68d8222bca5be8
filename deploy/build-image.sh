#!/bin/sh
# Builds the image with the first of docker, podman and buildah that works on this machine.
#   IMAGE   its name (default: a2a-grpc:VERSION)
#   BASE    another base image than the Dockerfile's default
#   BUILD_BASE  what it is built on, where BASE has no pip, such as
#               BASE=gcr.io/distroless/python3-debian12 BUILD_BASE=docker.io/library/debian:bookworm-slim with python3-venv
# Arguments are handed to the engine's build command. Without user namespaces, BUILDAH_ISOLATION=chroot serves podman
# and buildah.
set -eu

cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)

if docker info >/dev/null 2>&1; then
  engine="docker build"
elif command -v podman >/dev/null; then
  engine="podman build"
elif command -v buildah >/dev/null; then
  engine="buildah bud"
else
  echo "build-image: none of docker (with a running daemon), podman and buildah was found; install one of them" >&2
  exit 1
fi

# shellcheck disable=SC2086 # the engine is two words
exec $engine ${BASE:+--build-arg "BASE=$BASE"} ${BUILD_BASE:+--build-arg "BUILD_BASE=$BUILD_BASE"} \
  --label "org.opencontainers.image.version=$version" -f deploy/Dockerfile -t "${IMAGE:-a2a-grpc:$version}" "$@" .
