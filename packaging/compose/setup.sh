#!/bin/sh
# Prepares the directory of the compose file: certificates, data directories and .env with the user and a generated
# password of the superuser. Running it again renews nothing and keeps everything; remove certs/ for other certificates.
# CQLD is the program that makes certificates: by default, the image.
set -eu
cd "$(dirname "$0")"
umask 077
: "${CQLD_IMAGE:=cqld:latest}"
: "${CQLD:=docker run --rm --user $(id -u):$(id -g) --volume $PWD:/work --workdir /work $CQLD_IMAGE}"

[ -e certs/ca.key ] || $CQLD certs init --dir certs --cluster cqld
for node in cqld1 cqld2 cqld3 cqld4; do
  mkdir -p "certs/$node" "data/$node"
  [ -e "certs/$node/node.key" ] ||
    $CQLD certs node --dir "certs/$node" --ca-cert certs/ca.crt --ca-key certs/ca.key --name node "$node" localhost 127.0.0.1 >/dev/null
  cp certs/ca.crt "certs/$node/ca.crt"
done
if [ ! -e .env ]; then
  printf 'CQLD_IMAGE=%s\nCQLD_USER=%s:%s\nCQLD_SUPERUSER_PASSWORD=%s\n' \
    "$CQLD_IMAGE" "$(id -u)" "$(id -g)" "$(head -c 24 /dev/urandom | base64 | tr -d '/+=')" >.env
fi
echo "Next: docker compose up --detach --wait"
