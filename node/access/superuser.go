package access

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"cqld/auth"
	"cqld/node/config"
	"cqld/node/control"
)

// PasswordFile is the file in the data directory to which a node writes the generated password of the first superuser.
const PasswordFile = "superuser-password"

// CreateSuperuser creates the first superuser of a cluster with authentication that has no roles. There is no default
// password: it is the configured one, or a generated one in a file that only this user can read. Every node of a new
// cluster may call it at the same time: the first change that the metadata log accepts wins, and FirstSuperuser has no
// effect once a role exists. It blocks until the change is decided or ctx ends.
func (a *Access) CreateSuperuser(ctx context.Context) error {
	s := a.o.Settings
	if !s.Authenticates() || len(a.Roles().RoleNames()) > 0 {
		return nil
	}
	name, password, file := s.Superuser, s.SuperuserPassword, ""
	// Not Cassandra's cassandra, whose default password is known to everyone who scans ports.
	if name == "" {
		name = config.DefaultSuperuser
	}
	if password == "" {
		var err error
		if password, file, err = a.generatedPassword(); err != nil {
			return err
		}
	}
	hash, err := a.passwords.Hash(ctx, password)
	if err != nil {
		return err
	}
	// The hash, not the password, is in the log of the metadata. The log is replicated to all nodes.
	if err := a.o.Cluster.ProposeRoles(ctx, &auth.FirstSuperuser{Name: name, Hash: hash}); err != nil {
		return fmt.Errorf("node: create the first superuser: %w", err)
	}
	if r, ok := a.Roles().Role(name); !ok || r.Hash != hash { // another node was first
		if file != "" {
			return os.Remove(file)
		}
		a.o.Log.Info("the cluster already has roles; the configured superuser was not created", "role", name)
		return nil
	}
	a.o.Log.Info("created the first superuser", "role", name)
	if file != "" {
		a.o.Log.Warn("generated the superuser's password; change it with ALTER ROLE, then delete the file", "role",
			name,
			"file", file)
	}
	return nil
}

// generatedPassword returns a password that is in a file of the data directory: one that an earlier attempt wrote, or a
// new one. Reusing the file makes the start idempotent: a node that stopped before its proposal was decided proposes
// the same password, and the file stays true whether the earlier proposal was accepted or not.
func (a *Access) generatedPassword() (password, path string, err error) {
	if !a.o.Local {
		return "", "", errors.New("node: the first superuser needs a password: the data directory is not one of " +
			"this machine")
	}
	path = filepath.Join(a.o.DataDir, PasswordFile)
	if password, err = control.ReadPasswordFile(path); err == nil {
		return password, path, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", "", err
	}
	password = GeneratePassword()
	// O_EXCL refuses a link that another user may have put there. The file is synced before the role exists, or a power
	// failure could leave a superuser whose password is in no file.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", "", fmt.Errorf("node: write the generated password: %w", err)
	}
	_, err = f.WriteString(password + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", "", fmt.Errorf("node: write the generated password: %w", err)
	}
	return password, path, nil
}
