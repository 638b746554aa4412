package encryption

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// found is a file with content, as walk finds it.
type found struct {
	path   string
	info   vfs.FileInfo // of the file on disk
	header header
}

// walk calls visit for every file below the given directories, in the order of their names. A path may also name a
// file. It skips empty files, which have no content to protect, files with damaged headers, and files that disappear
// meanwhile. base is the file system below the encryption.
func walk(base vfs.FS, paths []string, visit func(found) error) error {
	return eachFile(base, paths, func(path string, info vfs.FileInfo) error {
		return visitFile(base, path, info, visit)
	})
}

// eachFile calls visit for every regular file of walk.
func eachFile(base vfs.FS, paths []string, visit func(path string, info vfs.FileInfo) error) error {
	for _, path := range paths {
		info, err := base.Stat(path)
		// A socket in the data directory has no content.
		if err == nil && info.Mode().IsRegular() {
			err = visit(path, info)
		} else if err == nil && info.IsDir() {
			err = eachIn(base, path, visit)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// eachIn calls visit for every regular file of a directory.
func eachIn(base vfs.FS, dir string, visit func(path string, info vfs.FileInfo) error) error {
	names, err := base.List(dir)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = base.PathJoin(dir, name)
	}
	return eachFile(base, names, visit)
}

// visitFile calls visit for a file if it has content and no damaged header.
func visitFile(base vfs.FS, path string, info vfs.FileInfo, visit func(found) error) error {
	if info.Size() == 0 {
		return nil
	}
	h, err := headerOf(base, path)
	// The database detects damaged files, so they are skipped here.
	if err != nil || h.damaged() {
		return err
	}
	return visit(found{path, info, h})
}

// headerOf reads the beginning of a file.
func headerOf(base vfs.FS, path string) (header, error) {
	f, err := base.Open(path)
	if err != nil {
		return header{}, err
	}
	h, err := readHeader(f)
	return h, errors.Join(err, f.Close())
}

// Use is how many files one key encrypts.
type Use struct {
	Key   KeyID // zero: the files are in clear
	Files int
	Bytes int64 // on disk, without the sharing of hard links
}

// Uses counts the files in directories, and single files, by their keys. The newest key is the first, also without
// files, and files in clear are last. base is the file system below the encryption.
func Uses(base vfs.FS, keys *Keys, paths ...string) ([]Use, error) {
	var uses []Use
	for _, id := range keys.IDs() {
		uses = append(uses, Use{Key: id})
	}
	clear := Use{}
	err := walk(base, paths, func(f found) error {
		u, id := &clear, f.header.key()
		if id != (KeyID{}) {
			i := slices.IndexFunc(uses, func(u Use) bool { return u.Key == id })
			if i < 0 {
				i, uses = len(uses), append(uses, Use{Key: id})
			}
			u = &uses[i]
		}
		u.Files++
		u.Bytes += f.info.Size()
		return nil
	})
	if clear.Files > 0 {
		uses = append(uses, clear)
	}
	return uses, err
}

// Check returns an error that names a file whose key is not among the keys, and the number of such files. It is called
// before anything opens the files: a database would take them for corrupt. base is the file system below the
// encryption, and keys may be nil.
func Check(base vfs.FS, keys *Keys, dirs ...string) error {
	var first *UnknownKey
	files := 0
	err := walk(base, dirs, func(f found) error {
		id := f.header.key()
		if id == (KeyID{}) || keys.find(id) != nil {
			return nil
		}
		if files++; first == nil {
			first = &UnknownKey{Path: f.path, Key: id, Known: keys.IDs()}
		}
		return nil
	})
	if err != nil || first == nil {
		return err
	}
	if files > 1 {
		return fmt.Errorf("%w (%d files need a key that is not configured)", first, files)
	}
	return first
}
