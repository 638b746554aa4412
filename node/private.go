package node

import (
	"fmt"
	"log/slog"
	"os"
)

// privateMode is the mode of directories that hold data: the user who runs the node, and root, can enter them.
const privateMode = 0o700

// makePrivate makes sure that dir exists and that other users of this machine cannot enter it. A directory that an earlier
// version made for all is closed to others, which protects everything below it.
func makePrivate(dir string, log *slog.Logger) error {
	if err := os.MkdirAll(dir, privateMode); err != nil {
		return fmt.Errorf("node: make data directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("node: data directory: %w", err)
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	if err := os.Chmod(dir, privateMode); err != nil {
		log.Warn("other users of this machine can enter the data directory", "directory", dir, "mode", info.Mode().Perm().String(), "err", err)
		return nil
	}
	log.Warn("data directory closed to other users", "directory", dir, "mode before", info.Mode().Perm().String())
	return nil
}
