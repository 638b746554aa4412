package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
)

// buildDebs builds a Debian package for each Linux target.
func (r *release) buildDebs(context.Context) error {
	for _, t := range r.linux() {
		if err := r.buildDeb(t); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	return nil
}

func (r *release) buildDeb(t target) error {
	text, err := os.ReadFile(filepath.Join(r.root, "packaging", "deb", "nfpm.yaml"))
	if err != nil {
		return err
	}
	variables := map[string]string{"ARCH": t.arch, "VERSION": r.version, "BINARY": r.binary(t), "NOTICES": r.notices()}
	config, err := nfpm.ParseWithEnvMapping(bytes.NewReader(text), func(name string) string { return variables[name] })
	if err != nil {
		return err
	}
	info, err := config.Get("deb")
	if err != nil {
		return err
	}
	r.anchor(info)
	if err := nfpm.PrepareForPackager(nfpm.WithDefaults(info), "deb"); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(r.out, fmt.Sprintf("cqld_%s_%s.deb", r.version, t.arch)))
	if err != nil {
		return err
	}
	if err := deb.Default.Package(info, f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// anchor makes the paths of a package absolute, and sets the times and owners of its files, so that neither the working
// directory nor the checkout has an effect.
func (r *release) anchor(info *nfpm.Info) {
	info.MTime = r.epoch
	info.Changelog = ""
	for _, script := range []*string{&info.Scripts.PostInstall, &info.Scripts.PreRemove, &info.Scripts.PostRemove} {
		if *script != "" {
			*script = filepath.Join(r.root, *script)
		}
	}
	for _, c := range info.Contents {
		if c.Source != "" && !filepath.IsAbs(c.Source) {
			c.Source = filepath.Join(r.root, c.Source)
		}
		if c.FileInfo == nil {
			c.FileInfo = &files.ContentFileInfo{}
		}
		c.FileInfo.MTime, c.FileInfo.Owner, c.FileInfo.Group = r.epoch, "root", "root"
	}
}
