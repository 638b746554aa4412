package ctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"cqld/cmd/cqld/running"
	"cqld/node/control"
	"cqld/tlsconfig"
)

// Where selects the node that receives the operations. Without flags, the node is found in the working directory or
// among the running local rings.
type Where struct {
	DataDir   string `help:"Data directory. Default: cqld-data, or the running ring." type:"path" env:"CQLD_DATA_DIR"`
	Node      int    `help:"Number of a node of 'cqld local'; default: the first node that responds." short:"n"`
	Host      string `help:"control_address of the node. Default: use the control socket in the data directory." placeholder:"HOST:PORT"`
	TLSCA     string `name:"tls-ca" help:"Certificates of the authorities that the node's certificate is from, for --host with TLS." type:"path" placeholder:"FILE"`
	TLSCert   string `name:"tls-cert" help:"Certificate of this client, for --host with TLS." type:"path" placeholder:"FILE"`
	TLSKey    string `name:"tls-key" help:"Private key of this client, for --host with TLS." type:"path" placeholder:"FILE"`
	TokenFile string `help:"The node's control.token file, for --host. Default: the one in the data directory." type:"path"`
}

// client returns a client of the node.
func (w *Where) client() (*control.Client, error) {
	// An address takes precedence over directories.
	if w.Host != "" {
		return w.remote()
	}
	if w.DataDir == "" {
		dir, err := FindDir()
		if err != nil {
			return nil, err
		}
		// Kept for error messages and for the next operation of this command.
		w.DataDir = dir
	}
	found, err := w.sockets()
	if err != nil {
		return nil, err
	}
	for _, path := range found {
		// A single socket needs no probe: connecting to it shows the actual error.
		if len(found) == 1 || answers(path) {
			return control.DialSocket(path), nil
		}
	}
	return nil, fmt.Errorf("none of the %d nodes in %s is running", len(found), w.DataDir)
}

// DefaultDir is the data directory of `cqld start` and `cqld local` without flags, relative to the working directory.
const DefaultDir = "cqld-data"

// FindDir chooses the data directory if --data-dir is not set: the default directory if a node listens there, otherwise
// the directory of the only running ring of `cqld local`. If no node is running, it returns the default directory.
func FindDir() (dir string, err error) {
	// A node that runs in the default directory takes precedence over rings.
	if dir, err = filepath.Abs(DefaultDir); err != nil || Running(dir) {
		return dir, err
	}
	switch rings := running.Rings(Running); len(rings) {
	case 0:
		return dir, nil
	case 1:
		// With several rings, an automatic choice could stop the wrong one.
		return rings[0], nil
	default:
		return "", fmt.Errorf("several rings run, and none in %s: choose one with --data-dir %s", dir,
			strings.Join(rings, ", or --data-dir "))
	}
}

// Running reports whether a node of a data directory, or of a ring, answers.
func Running(dir string) bool {
	found, err := (&Where{DataDir: dir}).sockets()
	return err == nil && slices.ContainsFunc(found, answers)
}

// remote returns a client of --host, which needs the token of the node's data directory.
func (w *Where) remote() (*control.Client, error) {
	host, _, err := net.SplitHostPort(w.Host)
	if err != nil {
		return nil, fmt.Errorf("--host: %w", err)
	}
	path := w.TokenFile
	// The token of a local node is in its data directory.
	if path == "" {
		path = filepath.Join(cmp.Or(w.DataDir, DefaultDir), control.TokenName)
	}
	token, err := control.ReadToken(path)
	if err != nil {
		return nil, fmt.Errorf("%w (set its path with --token-file)", err)
	}
	// Without any certificate, the connection is not encrypted; the node requires a loopback address for that.
	if w.TLSCA == "" && w.TLSCert == "" && w.TLSKey == "" {
		return control.DialAddress(w.Host, token), nil
	}
	files := tlsconfig.Files{Certificate: w.TLSCert, PrivateKey: w.TLSKey, TrustedCertificates: w.TLSCA}
	config, err := tlsconfig.ClientConfig(files, host, time.Now())
	if err != nil {
		return nil, fmt.Errorf("--tls-ca, --tls-cert, --tls-key: %w", err)
	}
	return control.DialTLS(w.Host, token, config), nil
}

// sockets returns the sockets on which a node may listen: in the directory itself (`cqld start`), or in the node
// directories of a ring (`cqld local`).
func (w *Where) sockets() ([]string, error) {
	// The pattern matches all nodes of a ring, sorted by name.
	node := "node*"
	if w.Node != 0 {
		node = "node" + strconv.Itoa(w.Node)
	}
	var found []string
	patterns := []string{filepath.Join(node, "data"), node}
	// --node excludes the directory itself.
	if w.Node == 0 {
		patterns = append([]string{"", "data"}, patterns...)
	}
	for _, p := range patterns {
		// The directory's name may contain special characters.
		paths, err := filepath.Glob(filepath.Join(escape(w.DataDir), p, control.SocketName))
		if err != nil {
			return nil, err
		}
		found = append(found, paths...)
	}
	if len(found) > 0 {
		return found, nil
	}
	// Each message says what to do next.
	if _, err := os.Stat(w.DataDir); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("directory %s does not exist: set --data-dir to the data directory of a local node, "+
			"or --host to the control_address of another one", w.DataDir)
	}
	if w.Node != 0 {
		return nil, fmt.Errorf("node %d is not running in %s: there is no %s", w.Node, w.DataDir,
			filepath.Join(node, "data", control.SocketName))
	}
	return nil, fmt.Errorf("no node is running in %s: it contains no %s", w.DataDir, control.SocketName)
}

// escape escapes the characters that are special to filepath.Glob.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// answerTimeout limits how long a node may take to accept a connection before the client tries the next one.
const answerTimeout = time.Second

// answers reports whether a node listens on a socket. The socket's file remains after a node was killed.
func answers(path string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	return control.DialSocket(path).Reachable(ctx)
}
