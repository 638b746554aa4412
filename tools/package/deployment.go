package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// buildDeployment writes the compose file and the Kubernetes manifests into one archive.
func (r *release) buildDeployment(context.Context) error {
	f, err := os.Create(filepath.Join(r.out, fmt.Sprintf("cqld-%s-packaging.tar.gz", r.version)))
	if err != nil {
		return err
	}
	defer f.Close()
	z := gzip.NewWriter(f)
	w := tar.NewWriter(z)
	source := filepath.Join(r.root, "packaging")
	for _, dir := range []string{"compose", "kubernetes"} {
		err := fs.WalkDir(os.DirFS(source), dir, func(name string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return r.appendFile(w, filepath.Join(source, name), path.Join("cqld-"+r.version, name))
		})
		if err != nil {
			return err
		}
	}
	for _, file := range [][2]string{{"LICENSE", filepath.Join(r.root, "LICENSE")}, {noticesName, r.notices()}} {
		if err := r.appendFile(w, file[1], "cqld-"+r.version+"/"+file[0]); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return f.Close()
}
