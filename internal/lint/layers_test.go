package lint

import (
	"strings"
	"testing"
)

// layers is the order of the rooms: a room may import rooms of lower layers, and those of its own
// layer that neighbours lists. It is a statement of policy: a build that needs it changed needs an
// ADR first. Rooms that are not listed belong to the listed one above them in the tree.
func layers() map[string]int {
	return map[string]int{
		"internal/wire": 0, "internal/invariant": 0, "internal/env": 0, "internal/guard": 0, "internal/intake": 0,
		"cql/types": 1, "ring": 1, "schema": 1, "auth": 1,
		"row":     2,
		"grammar": 3, "cql": 3, "storage": 3, "messaging": 3, "internal/model": 3,
		"coordinator/counter": 3, "coordinator/fence": 3, "coordinator/latency": 3, "coordinator/paxos": 3, "coordinator/quorum": 3,
		"coordinator/resolve": 3, "coordinator/turn": 3,
		"coordinator": 4, "coordinator/repair": 4, "replica": 4, "cluster": 4,
		"query": 5, "query/term": 5, "query/function": 5, "query/system": 5,
		"server": 6, "server/frame": 6, "table": 6, "table/entity": 6, "table/odata": 6,
		"node": 7, "node/control": 7, "node/assembly": 7,
		"cmd/cqld": 8, "internal/sim": 8, "integration": 8, "tools": 8, "internal/lint": 8,
	}
}

// neighbours are the imports allowed within a layer.
func neighbours() map[string][]string {
	return map[string][]string{
		"schema":             {"cql/types", "ring"},
		"coordinator/repair": {"coordinator"},
		"coordinator/turn":   {"coordinator/latency"},
		"cql":                {"grammar"},
		"replica":            {"coordinator", "coordinator/repair"}, // implements their interfaces
		"query":              {"query/function", "query/term"},
		"query/term":         {"query/function"},
		"query/system":       {"query"},
		"server":             {"server/frame"},
		"node":               {"node/assembly", "node/control"},
		"table":              {"table/odata", "table/entity"},
		"table/entity":       {"table/odata"},
	}
}

// owners are the rooms that may import a library; rooms below them in the tree may, too.
func owners() map[string][]string {
	return map[string][]string{
		"github.com/cockroachdb/pebble": {"storage", "cluster", "node", "internal/sim"},
		"github.com/antlr4-go/antlr":    {"grammar", "cql"},
		"go.etcd.io/raft":               {"cluster"},
		"google.golang.org/grpc":        {"messaging"},
		"google.golang.org/protobuf":    {"cluster"},
		"github.com/gocql/gocql":        {"integration"},
		"github.com/Azure":              {"integration"},
		"github.com/apache/cassandra":   {"integration"},
		"go.yaml.in/yaml":               {"node"},
		"github.com/alecthomas/kong":    {"cmd/cqld", "integration"},
		"github.com/pierrec/lz4":        {"server/frame", "integration"},
		"github.com/golang/snappy":      {"server/frame", "integration"},
		"github.com/spaolacci/murmur3":  {"ring", "row"},
		"github.com/HdrHistogram":       {"integration"},
		"github.com/anishathalye":       {"internal/sim"},
		"github.com/prometheus":         {"node"},
		"github.com/google/nftables":    {"integration"},
		"github.com/valyala/fasthttp":   {"table"},
	}
}

// home is the listed room a package belongs to.
func home(pkg string) (string, bool) {
	for p := pkg; ; {
		if _, ok := layers()[p]; ok {
			return p, true
		}
		i := strings.LastIndexByte(p, '/')
		if i < 0 {
			return "", false
		}
		p = p[:i]
	}
}

func TestImportsGoDown(t *testing.T) {
	order, near := layers(), neighbours()
	for pkg, r := range rooms(t) {
		if pkg == "." {
			t.Errorf("the module's root is not a room")
			continue
		}
		from, ok := home(pkg)
		if !ok {
			t.Errorf("%s has no place in layers", pkg)
			continue
		}
		for imported, file := range r.imports() {
			rel, ours := strings.CutPrefix(imported, "cqld/")
			if !ours {
				continue
			}
			to, ok := home(rel)
			switch {
			case !ok:
				t.Errorf("%s imports %s, which has no place in layers", file, imported)
			case to == from || order[to] < order[from] || contains(near[from], to):
			default:
				t.Errorf("%s imports %s: imports go down only (design: query never sees storage, storage never the network)", file, imported)
			}
			if from == "query" && to == "storage" {
				t.Errorf("%s: query never sees storage", file)
			}
		}
	}
}

func TestLibrariesHaveOwners(t *testing.T) {
	for pkg, r := range rooms(t) {
		for imported, file := range r.imports() {
			for lib, rooms := range owners() {
				if strings.HasPrefix(imported, lib) && !ownedBy(pkg, rooms) {
					t.Errorf("%s imports %s, which only %v may", file, imported, rooms)
				}
			}
		}
	}
}

func ownedBy(pkg string, rooms []string) bool {
	for _, r := range rooms {
		if pkg == r || strings.HasPrefix(pkg, r+"/") {
			return true
		}
	}
	return false
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
