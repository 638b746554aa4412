package node

import (
	"context"
	"fmt"
	"path/filepath"

	"cqld/node/config"
	"cqld/node/datadir"
	"cqld/node/storekeys"
	"cqld/storage/encryption"
)

// openEncryption replaces the file system of the options by one that encrypts, if keys are configured.
func openEncryption(ctx context.Context, opts *config.Options) error {
	keys, err := storekeys.Load(ctx, &opts.AtRest)
	if err != nil {
		return fmt.Errorf("node: %w", err)
	}
	// The options may be ones with which a node was open before.
	disk, err := storekeys.Disk(encryption.Below(opts.FS), keys, filepath.Join(opts.DataDir, datadir.Rows),
		filepath.Join(opts.DataDir, datadir.Metadata))
	if err != nil {
		return fmt.Errorf("node: %w", err)
	}
	if opts.FS = disk; keys == nil {
		return nil
	}
	opts.Logger.Info("stored data is encrypted", "keys", keys.IDs(), "newest", keys.Newest())
	return nil
}

// loadBackupKeys returns the keys of backups, or nil if none are configured.
func loadBackupKeys(ctx context.Context, opts *config.Options) (*encryption.Keys, error) {
	keys, err := storekeys.LoadFrom(ctx, &opts.BackupKeys)
	if err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	if keys != nil {
		opts.Logger.Info("new backups are encrypted", "keys", keys.IDs(), "newest", keys.Newest())
	}
	return keys, nil
}
