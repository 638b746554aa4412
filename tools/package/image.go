package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// imageUser is the id of the user and the group that run the node in the image.
const imageUser = 65532

// imageData is the volume with the data of the node.
const imageData = "/var/lib/cqld"

// buildImage writes the image for all Linux targets as a tar file of an OCI layout. It has no operating system: cqld is
// a static binary, and trusts only the certificate authorities that its configuration names.
func (r *release) buildImage(context.Context) error {
	base, err := r.baseLayer()
	if err != nil {
		return err
	}
	var index v1.ImageIndex = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, t := range r.linux() {
		image, err := r.image(t, base)
		if err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: t.os, Architecture: t.arch}}})
	}
	dir, err := os.MkdirTemp(r.out, "cqld-layout-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	root, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	name := map[string]string{"org.opencontainers.image.ref.name": "cqld:" + imageTag(r.version)}
	if err := root.AppendIndex(index, layout.WithAnnotations(name)); err != nil {
		return err
	}
	return r.archive(dir, filepath.Join(r.out, fmt.Sprintf("cqld-%s-image.tar", r.version)))
}

// imageTag returns a version as a tag of an image, which must not contain "~" and "+".
func imageTag(version string) string {
	return string(bytes.Map(func(c rune) rune {
		if c == '~' || c == '+' {
			return '-'
		}
		return c
	}, []byte(version)))
}

// image returns the image for a target.
func (r *release) image(t target, base v1.Layer) (v1.Image, error) {
	binary, err := os.ReadFile(r.binary(t))
	if err != nil {
		return nil, err
	}
	license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	notices, err := os.ReadFile(r.notices())
	if err != nil {
		return nil, err
	}
	program, err := r.layer([]entry{{name: "usr/"}, {name: "usr/bin/"},
		{name: "usr/bin/cqld", mode: 0o755, content: binary},
		{name: "usr/share/"}, {name: "usr/share/doc/"}, {name: "usr/share/doc/cqld/"},
		{name: "usr/share/doc/cqld/LICENSE", mode: 0o644, content: license},
		{name: "usr/share/doc/cqld/" + noticesName, mode: 0o644, content: notices}})
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.AppendLayers(image, base, program); err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = t.os, t.arch, v1.Time{Time: r.epoch}
	for i := range config.History {
		config.History[i].Created = config.Created
	}
	config.Config = v1.Config{
		User: fmt.Sprintf("%d:%d", imageUser, imageUser), WorkingDir: imageData, Entrypoint: []string{"/usr/bin/cqld"},
		Cmd:     []string{"start", "--config", "/etc/cqld/cqld.yaml"},
		Env:     []string{"PATH=/usr/bin", "CQLD_DATA_DIR=" + imageData},
		Volumes: map[string]struct{}{imageData: {}}, StopSignal: "SIGTERM",
		ExposedPorts: map[string]struct{}{"7000/tcp": {}, "9042/tcp": {}, "10002/tcp": {}},
		Labels: map[string]string{"org.opencontainers.image.title": "cqld",
			"org.opencontainers.image.version": r.version, "org.opencontainers.image.licenses": "Apache-2.0"},
	}
	return mutate.ConfigFile(image, config)
}

// baseLayer returns the layer with the files that the program needs: its user, its configuration and its directories.
func (r *release) baseLayer() (v1.Layer, error) {
	config, err := os.ReadFile(filepath.Join(r.root, "packaging", "image", "cqld.yaml"))
	if err != nil {
		return nil, err
	}
	return r.layer([]entry{
		{name: "etc/"},
		{name: "etc/passwd", mode: 0o644, content: fmt.Appendf(nil,
			"root:x:0:0:root:/:/sbin/nologin\ncqld:x:%d:%d:cqld:%s:/sbin/nologin\n", imageUser, imageUser, imageData)},
		{name: "etc/group", mode: 0o644, content: fmt.Appendf(nil, "root:x:0:\ncqld:x:%d:\n", imageUser)},
		{name: "etc/cqld/"},
		{name: "etc/cqld/certs/"},
		{name: "etc/cqld/cqld.yaml", mode: 0o644, content: config},
		{name: "tmp/", mode: 0o1777},
		{name: "var/"},
		{name: "var/lib/"},
		{name: "var/lib/cqld/", mode: 0o700, owner: imageUser},
	})
}

// entry is a file of a layer, or a directory if its name ends with a slash.
type entry struct {
	name    string
	mode    int64 // 0: the mode of a directory
	owner   int
	content []byte
}

func (r *release) layer(entries []entry) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner, Size: int64(len(e.content)),
			ModTime: r.epoch, Typeflag: tar.TypeReg}
		if e.name[len(e.name)-1] == '/' {
			h.Typeflag = tar.TypeDir
			if e.mode == 0 {
				h.Mode = 0o755
			}
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b.Bytes())),
			nil
	}, tarball.WithMediaType(types.OCILayer))
}

// archive writes the files of dir into a tar file, in the order of their names.
func (r *release) archive(dir, path string) error {
	var names []string
	if err := fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if name != "." {
			names = append(names, name)
		}
		return err
	}); err != nil {
		return err
	}
	slices.Sort(names)
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := tar.NewWriter(f)
	for _, name := range names {
		if err := r.appendFile(w, filepath.Join(dir, name), name); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return f.Close()
}

// appendFile appends a file or a directory. Its owner, mode and time do not depend on the file system.
func (r *release) appendFile(w *tar.Writer, path, name string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	h := &tar.Header{Name: name, Mode: 0o644, ModTime: r.epoch, Typeflag: tar.TypeReg, Size: info.Size()}
	if info.IsDir() {
		h.Name, h.Mode, h.Typeflag, h.Size = name+"/", 0o755, tar.TypeDir, 0
		return w.WriteHeader(h)
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}
