package ctl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"cqld/node/control"
)

// Where says which node is asked.
type Where struct {
	DataDir   string `help:"Data directory of the node, or of a ring of 'cqld local'." default:"cqld-data" type:"path" env:"CQLD_DATA_DIR"`
	Node      int    `help:"Which node of a ring of 'cqld local'; the first that answers unless it is given." short:"n"`
	Host      string `help:"Ask the node whose control_address this is, instead of one on this machine's file system." placeholder:"HOST:PORT"`
	TokenFile string `help:"The node's control.token, for --host; in its data directory unless it is given." type:"path"`
}

// client is a client of the node.
func (w *Where) client() (*control.Client, error) {
	if w.Host != "" {
		return w.remote()
	}
	found, err := w.sockets()
	if err != nil {
		return nil, err
	}
	for _, path := range found {
		if len(found) == 1 || answers(path) {
			return control.DialSocket(path), nil
		}
	}
	return nil, fmt.Errorf("none of the %d nodes in %s runs", len(found), w.DataDir)
}

func (w *Where) remote() (*control.Client, error) {
	if _, _, err := net.SplitHostPort(w.Host); err != nil {
		return nil, fmt.Errorf("--host: %w", err)
	}
	path := w.TokenFile
	if path == "" {
		path = filepath.Join(w.DataDir, control.TokenName)
	}
	token, err := control.ReadToken(path)
	if err != nil {
		return nil, fmt.Errorf("%w (--token-file says where it is)", err)
	}
	return control.DialAddress(w.Host, token), nil
}

// sockets are where a node may listen: in the directory itself, as of `cqld start`, or in those of
// a ring of `cqld local`.
func (w *Where) sockets() ([]string, error) {
	node := "node*"
	if w.Node != 0 {
		node = "node" + strconv.Itoa(w.Node)
	}
	var found []string
	patterns := []string{filepath.Join(node, "data"), node}
	if w.Node == 0 {
		patterns = append([]string{"", "data"}, patterns...)
	}
	for _, p := range patterns {
		paths, err := filepath.Glob(filepath.Join(escape(w.DataDir), p, control.SocketName))
		if err != nil {
			return nil, err
		}
		found = append(found, paths...)
	}
	if len(found) > 0 {
		return found, nil
	}
	if _, err := os.Stat(w.DataDir); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there is no %s: --data-dir says where a node of this machine keeps its data, --host where another listens", w.DataDir)
	}
	if w.Node != 0 {
		return nil, fmt.Errorf("node %d does not run in %s: there is no %s", w.Node, w.DataDir, filepath.Join(node, "data", control.SocketName))
	}
	return nil, fmt.Errorf("no node runs in %s: there is no %s in it", w.DataDir, control.SocketName)
}

// escape takes the meaning from what filepath.Glob would understand.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// answerTimeout is how long a node may take to accept a connection before the next is tried.
const answerTimeout = time.Second

// answers tells whether a node listens on a socket: the file outlives a node that was killed.
func answers(path string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	return control.DialSocket(path).Reachable(ctx)
}
