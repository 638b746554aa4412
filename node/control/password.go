package control

import (
	"fmt"
	"os"
	"strings"
)

// passwordFileMax bounds the size of a file with a password.
const passwordFileMax = 4096

// ReadPasswordFile returns the first line of a file with a password. It refuses files that other users may read.
// Further lines are ignored. An empty password is an error.
func ReadPasswordFile(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("password file: %w", err)
	}
	if err := CheckPrivate(path, info); err != nil {
		return "", fmt.Errorf("password file: %w", err)
	}
	if info.Size() > passwordFileMax {
		return "", fmt.Errorf("password file %s has %d bytes, more than the %d allowed", path, info.Size(),
			passwordFileMax)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("password file: %w", err)
	}
	// Spaces belong to the password; only the line break of either kind does not.
	password, _, _ := strings.Cut(string(b), "\n")
	if password = strings.TrimSuffix(password, "\r"); password == "" {
		return "", fmt.Errorf("password file %s is empty", path)
	}
	return password, nil
}

// CheckPrivate refuses a file with secrets that users other than its owner may read or change. The group may read a
// file of root, which is how orchestrators pass secrets to a process of another user. It refuses none on systems where
// modes do not restrict access.
func CheckPrivate(path string, info os.FileInfo) error {
	mode := info.Mode().Perm()
	if !modesRestrict || mode&0o077 == 0 || mode&0o037 == 0 && ownedByRoot(info) {
		return nil
	}
	return fmt.Errorf("%s has mode %04o, so other users may read it: run chmod 600 %s", path, mode, path)
}
