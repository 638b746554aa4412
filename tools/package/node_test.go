package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// patience bounds the wait for a node on a busy machine.
const patience = time.Minute

// freePorts returns ports of a loopback address that only this process uses.
func freePorts(t *testing.T, n int) (address string, ports []string) {
	t.Helper()
	pid := os.Getpid()
	address = fmt.Sprintf("127.%d.%d.%d", 60+pid>>14%60, pid>>6&255, 1+pid&63)
	for range n {
		l, err := net.Listen("tcp", address+":0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, port)
	}
	return address, ports
}

// arguments returns the flags that move a node of the packaged configuration to free ports, and the URL of its probes.
func arguments(t *testing.T) (flags []string, probes string) {
	address, ports := freePorts(t, 3)
	return []string{"--listen-address", address, "--rpc-address", address, "--seeds", address, "--storage-port",
			ports[0],
			"--native-transport-port", ports[1], "--health-address", address + ":" + ports[2]}, "http://" + address +
			":" +
			ports[2]
}

// awaitReady waits until a node serves clients.
func (n *node) awaitReady(t *testing.T, probes string) {
	t.Helper()
	client := http.Client{Timeout: time.Second}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		select {
		case err := <-n.exited:
			t.Fatalf("the node ended: %v\n%s", err, n.log.String())
		default:
		}
		if resp, err := client.Get(probes + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
	}
	t.Fatal("the node is not ready")
}

// stop sends SIGTERM, after which a node must drain and exit without an error.
func (n *node) stop(t *testing.T) {
	t.Helper()
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-n.exited:
		if err != nil || !strings.Contains(n.log.String(), "draining") {
			t.Errorf("the node ended with %v\n%s", err, n.log.String())
		}
	case <-time.After(patience):
		t.Fatal("the node does not stop")
	}
}

// unpackedImage returns the image for this system, and a directory with its files.
func unpackedImage(t *testing.T) (v1.Image, string) {
	t.Helper()
	dir, root := t.TempDir(), t.TempDir()
	paths, err := filepath.Glob(filepath.Join(built.out, "*-image.tar"))
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	f, err := os.Open(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unpack(t, f, dir)
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Fatal(err)
	}
	image := only(t, index)
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		r, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		unpack(t, r, root)
		r.Close()
	}
	if os.Geteuid() == 0 {
		if err := makeReachable(root); err != nil {
			t.Fatal(err)
		}
	}
	return image, root
}

// only returns the only image below an index.
func only(t *testing.T, index v1.ImageIndex) v1.Image {
	t.Helper()
	for {
		m, err := index.IndexManifest()
		if err != nil || len(m.Manifests) != 1 {
			t.Fatal(m, err)
		}
		d := m.Manifests[0]
		if d.MediaType.IsImage() {
			if d.Platform == nil || d.Platform.String() != built.targets[0].String() {
				t.Errorf("the platform is %v", d.Platform)
			}
			image, err := index.Image(d.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return image
		}
		if index, err = index.ImageIndex(d.Digest); err != nil {
			t.Fatal(err)
		}
	}
}

// unpack writes the files of a tar file, with their owners if this user may do that.
func unpack(t *testing.T, r io.Reader, root string) {
	t.Helper()
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if !filepath.IsLocal(h.Name) || !h.ModTime.Equal(built.epoch) {
			t.Errorf("%s has the time %v", h.Name, h.ModTime)
		}
		path := filepath.Join(root, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			var b []byte
			if b, err = io.ReadAll(tr); err == nil {
				err = os.WriteFile(path, b, 0o600)
			}
		}
		mode := os.FileMode(h.Mode & 0o777)
		if h.Mode&0o1000 != 0 {
			mode |= os.ModeSticky
		}
		if err = errors.Join(err, os.Chmod(path, mode)); err == nil && os.Geteuid() == 0 {
			err = os.Lchown(path, h.Uid, h.Gid)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestImageRuns starts the image as a container runtime does, twice: as its user, with its files as the root directory
// if the test may do that, otherwise as a plain process.
func TestImageRuns(t *testing.T) {
	image, root := unpackedImage(t)
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := file.Config
	if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/usr/bin/cqld"}) ||
		c.StopSignal != "SIGTERM" || !file.Created.Equal(built.epoch) {
		t.Errorf("the configuration is %+v", c)
	}
	flags, probes := arguments(t)
	container := containerOf(root, &c)
	if os.Geteuid() != 0 {
		flags = append(flags, "--data-dir", filepath.Join(root, imageData))
	}
	for range 2 {
		if out, err := container("ctl", "ready").CombinedOutput(); err == nil {
			t.Errorf("ready before the node runs: %s", out)
		}
		n := startNode(t, container(append(slices.Clone(c.Cmd), flags...)...))
		n.awaitReady(t, probes)
		if out, err := container("ctl", "ready").CombinedOutput(); err != nil {
			t.Errorf("not ready: %v, %s", err, out)
		}
		n.stop(t)
	}
}

// containerOf returns a function that prepares a process in a container of the image: with its files as the root
// directory, its variables and its user if this user may do that.
func containerOf(root string, c *v1.Config) func(args ...string) *exec.Cmd {
	return func(args ...string) *exec.Cmd {
		if os.Geteuid() != 0 {
			args = slices.Clone(args)
			for i := range args {
				args[i] = strings.Replace(args[i], "/etc/cqld", filepath.Join(root, "etc", "cqld"), 1)
			}
			cmd := exec.Command(filepath.Join(root, c.Entrypoint[0]), args...)
			cmd.Env = append(slices.Clone(c.Env), "CQLD_DATA_DIR="+filepath.Join(root, imageData))
			return cmd
		}
		cmd := exec.Command(c.Entrypoint[0], args...)
		cmd.Env, cmd.Dir = slices.Clone(c.Env), c.WorkingDir
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root,
			Credential: &syscall.Credential{Uid: imageUser, Gid: imageUser}}
		return cmd
	}
}

// TestImageInDevelopment starts the image by variables alone. In development mode, the node prints how clients connect,
// says what it gives up and serves the development account of Azure Tables; otherwise it does not serve clients of all
// networks.
func TestImageInDevelopment(t *testing.T) {
	image, root := unpackedImage(t)
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := file.Config
	container := containerOf(root, &c)
	address, ports := freePorts(t, 4)
	variables := []string{"CQLD_LISTEN_ADDRESS=" + address, "CQLD_SEEDS=" + address, "CQLD_STORAGE_PORT=" + ports[0],
		"CQLD_NATIVE_TRANSPORT_PORT=" + ports[1],
		"CQLD_TABLES_PORT=" + ports[2], "CQLD_HEALTH_ADDRESS=" + address + ":" + ports[3]}
	refused := container(c.Cmd...)
	refused.Env = append(append(refused.Env, variables...), "CQLD_RPC_ADDRESS=0.0.0.0")
	if out, err := refused.CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "0.0.0.0 serves clients of all networks") {
		t.Errorf("0.0.0.0 without development mode: %v, %s", err, out)
	}
	cmd := container(c.Cmd...)
	cmd.Env = append(append(cmd.Env, variables...), "CQLD_DEVELOPMENT=true", "CQLD_RPC_ADDRESS="+address)
	n := startNode(t, cmd)
	n.awaitReady(t, "http://"+address+":"+ports[3])
	if out, err := container("ctl", "ready").CombinedOutput(); err != nil {
		t.Errorf("not ready: %v, %s", err, out)
	}
	client := http.Client{Timeout: patience}
	resp, err := client.Get("http://" + address + ":" + ports[2] + "/devstoreaccount1/Tables")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("Azure Tables without a signature: %s", resp.Status)
	}
	n.stop(t)
	for _, want := range []string{"cqld is ready.", "cqlsh " + address + " " + ports[1],
		"AccountName=devstoreaccount1", "development mode: "} {
		if !strings.Contains(n.log.String(), want) {
			t.Errorf("the node does not print %q:\n%s", want, n.log.String())
		}
	}
}

// makeReachable lets all users pass through the temporary directories of the test.
func makeReachable(dir string) error {
	var errs []error
	for ; strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		errs = append(errs, os.Chmod(dir, 0o755))
	}
	return errors.Join(errs...)
}
