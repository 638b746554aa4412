package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/auth"
	"cqld/node/config"
	"cqld/node/control"
)

// passwordFile is the file in the data directory to which a node writes the generated password of the first superuser.
const passwordFile = "superuser-password"

// createSuperuser creates the first superuser of a cluster with authentication that has no roles. There is no default
// password: it is the configured one, or a generated one in a file that only this user can read.
func (n *Node) createSuperuser(ctx context.Context) error {
	a := &n.opts.Access
	if !a.Authenticates() || len(n.roles().RoleNames()) > 0 {
		return nil
	}
	name, password, file := a.Superuser, a.SuperuserPassword, ""
	if name == "" {
		name = config.DefaultSuperuser
	}
	if password == "" {
		var err error
		if password, file, err = n.generatedPassword(); err != nil {
			return err
		}
	}
	hash, err := n.hashPassword(ctx, password)
	if err != nil {
		return err
	}
	if err := n.cluster.ProposeRoles(ctx, &auth.FirstSuperuser{Name: name, Hash: hash}); err != nil {
		return fmt.Errorf("node: create the first superuser: %w", err)
	}
	if r, ok := n.roles().Role(name); !ok || r.Hash != hash { // another node was first
		if file != "" {
			return os.Remove(file)
		}
		n.log.Info("the cluster already has roles; the configured superuser was not created", "role", name)
		return nil
	}
	n.log.Info("created the first superuser", "role", name)
	if file != "" {
		n.log.Warn("generated the superuser's password; change it with ALTER ROLE, then delete the file", "role", name,
			"file", file)
	}
	return nil
}

// generatedPassword returns a password that is in a file of the data directory: one that an earlier attempt wrote, or a
// new one.
func (n *Node) generatedPassword() (password, path string, err error) {
	if n.opts.FS != vfs.Default {
		return "", "", errors.New("node: the first superuser needs a password: the data directory is not one of " +
			"this machine")
	}
	path = filepath.Join(n.opts.DataDir, passwordFile)
	if password, err = control.ReadPasswordFile(path); err == nil {
		return password, path, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", "", err
	}
	password = generatePassword()
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
