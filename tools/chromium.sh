#!/usr/bin/env bash
# Finds a Chromium for the browser test, or installs Debian's headless one, which root may; .tools/chromium is a link to it.
# Its version is not pinned: a browser that is kept up to date by the system is what people use.
. "$(dirname "$0")/lib.sh"
find_chromium() {
  command -v chromium-headless-shell || command -v chromium || command -v google-chrome || command -v chromium-browser
}
if ! find_chromium >/dev/null; then
  need apt-get "any Chromium: chromium-headless-shell, chromium, google-chrome"
  [ "$(id -u)" = 0 ] || { echo "chromium.sh: only root may install the package chromium-headless-shell" >&2; exit 3; }
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium-headless-shell >/dev/null
fi
ln -sfn "$(find_chromium)" "$tools/chromium"
