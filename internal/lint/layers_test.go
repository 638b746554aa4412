package lint

import (
	"slices"
	"strings"
	"testing"
)

// allowedImports lists the packages of this module that each package may import, in the form of go/build's dependency
// test. A package is below all packages that import it, and imports only packages listed before it. A new edge is an
// architectural decision: describe it in docs/ARCHITECTURE.md, or in an ADR. Remove edges that are no longer used. An
// indented line continues the line above it.
//
// query never imports storage; storage imports neither cql, coordinator nor messaging; protocol servers import neither
// cluster nor messaging. Only node and simulation construct all of them.
const allowedImports = `
# What everything may import.
internal/env:
internal/guard:
internal/histogram:
internal/intake:
internal/invariant:
internal/javanumber:
internal/keyword:
internal/loglimit:
internal/cputime:
internal/release:
internal/typo:
internal/syncbuf:
internal/wire:
internal/memory: internal/env
internal/testclock: internal/env
internal/invariant/invarianttest: internal/invariant
internal/await:
internal/tier:
internal/repetition:
internal/matrix:
internal/mutant:

# The data model, and who may do what: pure values.
auth:
clusterversion:
ring: clusterversion internal/invariant
types/number:
types: internal/keyword internal/wire types/number
types/analysis:
types/similarity:
internal/uuid: internal/env types
schema/systemtables:
schema/refused:
schema/indexclass: internal/javanumber schema/refused types
schema: ring schema/indexclass schema/refused schema/systemtables types
ring/load: internal/env internal/wire ring schema
ring/balance: ring ring/load
row: internal/env internal/invariant internal/wire ring schema types
scan: ring row
internal/model: ring row
internal/model/generate:

# Functions that users define.
udf/value: internal/wire types
udf/lua: udf/value
udf/java: internal/javanumber types udf/value
udf/wasm: internal/memory internal/wire types udf/value
udf: internal/guard internal/memory schema types udf/java udf/lua udf/value udf/wasm

# Text of statements and filters.
grammar:
cql: grammar internal/keyword
azuretables/odata:

# Records of long-running work, and of what clients and operators did.
jobs: internal/env
audit: cql

# Certificates.
tlsconfig: internal/env internal/guard
tlsconfig/authority: tlsconfig

# Storage and messages.
storage/rowkey: internal/invariant ring row schema
storage/block: internal/invariant internal/wire row schema storage/rowkey
storage/blockfilter: ring row schema storage/rowkey
storage/backlog: internal/invariant
storage/bounds: internal/invariant ring row schema storage/rowkey
storage/step: internal/invariant
storage/failure: schema storage/rowkey
storage/tableinfo: ring schema
storage/estimate: ring schema storage/rowkey
storage/faultfs:
storage/compaction: internal/env
storage/format:
storage/latch: internal/invariant ring
storage/logcheck:
storage/logguard: storage/logcheck
storage/logarchive: schema storage/logcheck
storage/overlay:
storage/encryption:
storage/dropped: schema
storage/merging: internal/invariant row
storage/pause: internal/invariant
storage/space: internal/env
storage/rowcache: internal/invariant ring schema storage/rowkey
storage/database: internal/env internal/invariant schema storage/blockfilter storage/compaction storage/encryption
	storage/failure storage/format storage/logarchive storage/logguard storage/merging storage/rowcache storage/rowkey
storage/headers: internal/invariant schema
storage/lost: internal/invariant ring schema storage/failure
storage/export: internal/invariant ring row schema storage/block storage/database storage/failure storage/format
	storage/logarchive storage/overlay storage/rowkey
storage/reading: internal/env internal/invariant ring row schema storage/backlog storage/blockfilter storage/bounds
	storage/database storage/failure storage/headers storage/lost storage/merging storage/rowcache storage/rowkey
	storage/step storage/tableinfo
storage/purge: internal/env internal/invariant internal/wire ring row schema storage/backlog storage/bounds
	storage/database storage/failure storage/latch storage/rowkey storage/space storage/tableinfo
storage: internal/env internal/guard internal/invariant internal/wire ring row schema storage/backlog storage/block
	storage/bounds storage/database storage/dropped storage/encryption storage/estimate storage/export storage/failure
	storage/format storage/headers storage/latch storage/logarchive storage/lost storage/pause storage/purge
	storage/reading storage/rowcache storage/rowkey storage/space storage/step storage/tableinfo
storage/index/vector: types/similarity
storage/index: internal/env internal/invariant ring row schema storage storage/failure storage/index/vector
	storage/reading types types/analysis types/similarity
messaging: internal/env internal/guard internal/intake internal/invariant internal/wire ring
messaging/internodetls: tlsconfig

# Backups, as a store has them.
backup/bucket:
backup/bucket/buckettest: backup/bucket
backup/bucket/s3: backup/bucket
backup/seal:
backup/schedule:
backup/bucket/azure: backup/bucket
backup/bucket/gcs: backup/bucket
backup: auth backup/bucket backup/bucket/azure backup/bucket/gcs backup/bucket/s3 backup/seal ring schema
	storage/encryption types

# Cluster metadata.
cluster/metadata: auth clusterversion internal/invariant ring schema
cluster/liveness: clusterversion internal/env internal/invariant internal/wire ring schema
cluster/raftlog: internal/invariant storage/compaction storage/logguard
cluster/raftcheck: cluster/metadata ring
cluster/voters: internal/invariant ring
cluster/identity: cluster/metadata cluster/raftlog internal/env internal/uuid ring
cluster/recovery: cluster/identity cluster/metadata cluster/raftlog cluster/voters ring schema
cluster: auth cluster/identity cluster/liveness cluster/metadata cluster/raftcheck cluster/raftlog cluster/voters
	clusterversion internal/env internal/invariant internal/uuid internal/wire messaging ring schema schema/refused

# Protocols between replicas.
coordinator/fence:
coordinator/quorum: ring
coordinator/latency: ring schema
coordinator/resolve: ring row
coordinator/write: coordinator/quorum internal/invariant ring row schema
coordinator: coordinator/fence coordinator/latency coordinator/quorum coordinator/resolve coordinator/write internal/env
	internal/guard internal/invariant internal/wire ring row schema
replica: coordinator internal/env internal/guard internal/memory internal/wire messaging ring ring/load row schema
	storage/block storage/failure
paxos/ballot: ring row schema
paxos/contention: coordinator/latency internal/env internal/wire messaging replica ring row schema
paxos/acceptor: coordinator internal/env internal/invariant internal/wire messaging paxos/ballot paxos/contention
	replica ring row scan schema types
paxos: coordinator coordinator/latency internal/env internal/guard internal/invariant internal/wire paxos/ballot
	paxos/contention ring row schema
repair: coordinator internal/env internal/invariant internal/wire jobs messaging paxos/acceptor replica ring row scan
	schema storage/reading
rebalance: coordinator internal/env internal/invariant internal/wire messaging repair replica ring schema storage
	storage/failure storage/lost

# Protocols of the coordinator, each with both of its halves.
hints: coordinator internal/env internal/invariant internal/wire ring row schema
counters/shard: internal/invariant internal/wire ring row scan schema
counters: coordinator counters/shard internal/env internal/guard internal/invariant internal/wire messaging replica ring
	row scan schema
batchlog: coordinator internal/env internal/guard internal/invariant internal/wire messaging replica ring row schema
watermark: coordinator coordinator/quorum internal/env internal/guard internal/invariant internal/wire ring schema
listing: coordinator internal/env internal/guard internal/invariant internal/wire messaging replica ring row scan schema
	storage watermark
search: coordinator internal/env internal/guard internal/invariant internal/wire messaging replica ring row schema
	storage/index watermark

# Reads of materialized views.
view: coordinator internal/env internal/guard internal/invariant paxos ring row scan schema search storage/index

# What tests of several packages need.
simulation/testcluster: coordinator ring schema types
simulation/scenario: batchlog coordinator counters hints internal/env internal/testclock internal/wire listing messaging
	paxos paxos/acceptor paxos/contention replica ring row schema search simulation/testcluster storage storage/failure
	storage/index types types/similarity

# One request of either protocol.
request: auth coordinator internal/env internal/histogram internal/invariant internal/memory listing paxos ring row
	scan schema search

# The meaning of statements and of requests to Azure Tables.
query/fragments: row schema types

azuretables/entity: auth azuretables/odata coordinator internal/env internal/uuid internal/wire listing paxos request
	ring row schema schema/refused types
query/invalid:
query/plancache:
query/function: internal/wire query/invalid ring types types/similarity
query/guardrail: query/invalid row schema types types/analysis
query/term: cql internal/wire query/function query/invalid schema types
query/mask: auth cql internal/wire query/function query/invalid query/term schema types
query/rowview: internal/wire query/term row schema types
query/constraint: cql query/function query/invalid schema types
query/restriction: cql internal/wire query/invalid query/rowview query/term ring row schema
	schema/indexclass types types/analysis types/similarity
query/selection: cql internal/wire query/function query/invalid query/mask query/rowview query/term row schema types
query/option: internal/javanumber query/invalid schema
query/definition: cql internal/javanumber internal/wire query/constraint query/function query/guardrail query/invalid
	query/mask query/option query/restriction query/term ring schema schema/indexclass schema/refused types udf
query/testschema: cql query/definition query/function ring schema
query/permissions: auth cql query/definition query/function query/invalid schema
query/roles: auth cql internal/wire query/invalid query/permissions ring schema types
query/system: auth internal/histogram internal/wire query/mask ring row schema types types/analysis
query/execution: auth coordinator cql internal/env internal/uuid internal/wire query/guardrail query/invalid query/mask
	query/term request ring row schema types
query/read: auth coordinator cql internal/env internal/wire query/execution query/fragments query/function
	query/guardrail query/invalid query/mask query/restriction query/rowview query/selection query/term request ring row
	scan schema search types types/similarity
query/write: coordinator cql internal/histogram internal/uuid internal/wire paxos query/constraint query/execution
	query/function query/guardrail query/invalid query/mask query/restriction query/rowview query/term request ring row
	schema types types/similarity
query: audit auth coordinator cql internal/env internal/guard internal/histogram internal/uuid internal/wire
	query/definition query/execution query/fragments query/function query/guardrail query/invalid query/permissions
	query/plancache query/read query/roles query/term query/write request ring schema schema/refused search types
	udf udf/value

# Protocol servers.
server/frame: internal/wire ring types
server/account: internal/memory
server/buffer:
server/drain:
server/output: internal/guard internal/memory server/account server/buffer server/frame
server: auth coordinator cql internal/guard internal/intake internal/memory internal/wire query query/invalid request
	ring server/account server/buffer server/drain server/frame server/output tlsconfig
login: auth internal/env query/invalid server
login/certificate: login server tlsconfig
azuretables: auth azuretables/entity azuretables/odata coordinator internal/env internal/guard internal/intake
	internal/memory request ring schema schema/refused tlsconfig

# A node.
node/socket:
node/control: audit auth internal/guard
node/health:
node/datadir: ring storage
node/snapshot: row schema
node/tablestats: cluster internal/env internal/histogram query/system request ring row schema storage storage/estimate
node/assembly: batchlog cluster cluster/metadata coordinator counters hints internal/env internal/memory listing
	messaging paxos paxos/acceptor paxos/contention rebalance repair replica ring ring/load schema search storage
	storage/index storage/tableinfo view
node/config: audit azuretables backup cluster internal/env internal/memory internal/typo login/certificate messaging
	messaging/internodetls query/definition query/guardrail ring server/frame tlsconfig udf/value
node/storekeys: node/config storage/encryption tlsconfig
node/access: auth cluster coordinator internal/env login login/certificate node/config node/control query/roles ring
	schema server
node/certificates: node/config tlsconfig
node/clients: azuretables server
node/notify: cluster cluster/metadata node/clients query ring schema server server/frame
node/archive: auth backup cluster/metadata internal/env schema storage/logarchive
node/backups: auth backup backup/schedule cluster cluster/metadata internal/env messaging node/datadir node/snapshot
	repair ring row schema storage storage/block storage/export storage/format storage/logarchive storage/rowkey
node/admin: audit auth backup backup/schedule cluster cluster/metadata clusterversion coordinator cql hints
	internal/cputime internal/env internal/guard internal/histogram internal/release internal/wire jobs messaging
	node/access node/archive node/assembly node/backups node/certificates node/clients node/config node/control
	node/datadir node/snapshot node/tablestats query/definition query/system rebalance repair ring ring/balance
	ring/load schema search storage storage/block storage/database storage/encryption storage/export storage/format
	storage/index storage/lost types
node/operation: azuretables azuretables/odata internal/histogram
node/metrics: audit internal/env internal/guard internal/histogram internal/memory jobs messaging node/access node/admin
	node/assembly node/certificates node/clients node/config node/control node/operation node/tablestats paxos query
	request ring/load server server/frame tlsconfig
node/recorder: audit azuretables azuretables/odata login node/control node/operation
node/sysviews: auth cql internal/env node/admin node/assembly node/clients node/config node/control node/tablestats
	query query/system ring schema
node: audit auth azuretables azuretables/entity azuretables/odata batchlog cluster cluster/metadata coordinator hints
	internal/cputime internal/env internal/guard internal/memory messaging messaging/internodetls node/access node/admin node/assembly
	node/certificates node/clients node/config node/control node/datadir node/health node/metrics node/notify
	node/operation node/recorder node/snapshot node/socket node/storekeys node/sysviews node/tablestats query
	query/invalid rebalance repair request ring row schema search server server/frame storage storage/database
	storage/encryption storage/index storage/logarchive tlsconfig view

# Rings inside test processes, also of other modules.
cqldtest: azuretables internal/env node node/config storage/faultfs

# Programs, and what tests the whole.
azuretables/client:
cmd/cqld/running:
cmd/cqld/ctl: audit cmd/cqld/running node/control tlsconfig
cmd/cqld/bench: azuretables azuretables/client
cmd/cqld/certs: node/config tlsconfig tlsconfig/authority
cmd/cqld/recover: cluster/metadata cluster/recovery internal/uuid node/config node/datadir node/storekeys ring
	storage/encryption
cmd/cqld: azuretables backup cmd/cqld/bench cmd/cqld/certs cmd/cqld/ctl cmd/cqld/recover cmd/cqld/running
	internal/loglimit internal/memory internal/release internal/typo node node/config node/datadir node/control
	tlsconfig/authority
simulation/elle:
simulation/sealed: internal/invariant storage/encryption
simulation/damage: internal/env storage/faultfs storage/logarchive
simulation/kernel: internal/env
simulation/texttable: row schema types
simulation/engine: ring row schema simulation/kernel storage storage/index storage/reading
simulation/goroutine: internal/env simulation/kernel
simulation/meetings: simulation/kernel
simulation/pages: ring row scan schema storage
simulation/network: coordinator internal/env messaging ring simulation/kernel
simulation/history: azuretables/entity azuretables/odata ring row
simulation/backups: auth backup backup/bucket backup/bucket/buckettest cluster/metadata internal/env messaging
	node/archive node/assembly node/backups ring row schema simulation/goroutine simulation/kernel simulation/meetings simulation/network simulation/pages
	simulation/texttable storage
simulation: azuretables/entity azuretables/odata cluster cluster/metadata clusterversion coordinator hints
	internal/env internal/model internal/wire listing node/assembly paxos rebalance repair request ring row schema
	search simulation/damage simulation/elle simulation/engine simulation/goroutine simulation/history
	simulation/kernel simulation/meetings simulation/network simulation/pages simulation/sealed
	simulation/texttable storage storage/faultfs storage/index storage/reading storage/tableinfo types view
integration/cqlclient:
integration/process: integration/cqlclient tlsconfig/authority
integration/transcript: integration/cqlclient
integration/netns:
integration/bench: azuretables azuretables/client integration/cqlclient integration/process
integration:
internal/lint:
tools/mutants:
`

// importRules parses allowedImports. A package may import only packages that the list names before it.
func importRules(t *testing.T) map[string][]string {
	t.Helper()
	rules := map[string][]string{}
	for line := range strings.Lines(strings.ReplaceAll(allowedImports, "\n\t", " ")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		pkg, list, _ := strings.Cut(line, ":")
		imports := strings.Fields(list)
		for _, imported := range imports {
			if _, ok := rules[imported]; !ok {
				t.Errorf("the rule of %s names %s, which has no rule above it", pkg, imported)
			}
		}
		rules[pkg] = imports
	}
	return rules
}

func TestImportsAreAllowed(t *testing.T) {
	rules, packages := importRules(t), parsePackages(t)
	for pkg, r := range packages {
		allowed, ok := rules[pkg]
		if !ok {
			t.Errorf("allowedImports has no rule for %s", pkg)
			continue
		}
		used := map[string]bool{}
		for imported, file := range r.imports() {
			rel, ours := strings.CutPrefix(imported, "cqld/")
			if !ours {
				continue
			}
			used[rel] = true
			if !slices.Contains(allowed, rel) {
				t.Errorf("%s imports %s, which allowedImports does not allow", file, rel)
			}
		}
		for _, name := range allowed {
			if !used[name] {
				t.Errorf("%s may import %s but does not: remove it from allowedImports", pkg, name)
			}
		}
	}
	for pkg := range rules {
		if packages[pkg] == nil {
			t.Errorf("allowedImports has a rule for %s, which does not exist", pkg)
		}
	}
}

// owners returns the packages that may import a library. Packages in their subdirectories may import it as well.
func owners() map[string][]string {
	return map[string][]string{
		"github.com/cockroachdb/pebble": {"backup", "storage", "cluster", "node", "node/config", "cqldtest",
			"simulation", "simulation/damage", "simulation/scenario"},
		"github.com/antlr4-go/antlr":    {"grammar", "cql"},
		"go.etcd.io/raft":               {"cluster"},
		"google.golang.org/protobuf":    {"cluster"},
		"github.com/apache/cassandra":   {"integration"},
		"go.yaml.in/yaml":               {"node/config"},
		"github.com/alecthomas/kong":    {"cmd/cqld", "integration"},
		"github.com/pierrec/lz4":        {"server/frame", "integration"},
		"github.com/golang/snappy":      {"backup", "server/frame", "integration"},
		"github.com/spaolacci/murmur3":  {"ring", "row"},
		"github.com/HdrHistogram":       {"integration"},
		"github.com/anishathalye":       {"simulation/history"},
		"github.com/prometheus":         {"node"},
		"github.com/valyala/fasthttp":   {"azuretables"},
		"github.com/DeRuina/timberjack": {"audit"},
		"github.com/yuin/gopher-lua":    {"udf/lua"},
		"github.com/tetratelabs/wazero": {"udf/wasm"},
		"golang.org/x/text":             {"types/analysis", "udf/java"},
		"github.com/kljensen/snowball":  {"types/analysis"},
		"github.com/clipperhouse/uax29": {"types/analysis"},
		"github.com/minio/minio-go":     {"backup/bucket/s3"},
		"github.com/Azure":              {"backup/bucket/azure", "integration"},
		"golang.org/x/oauth2":           {"backup/bucket/gcs"},
		"golang.org/x/crypto/bcrypt":    {"login", "node", "query/roles"},
		// Only integration/drivers, integration/firewall and integration/stores use these; they are separate modules.
		"github.com/gocql/gocql":     {},
		"github.com/google/nftables": {},
		"github.com/johannesboyne":   {},
		"github.com/fsouza":          {},
	}
}

func TestLibrariesHaveOwners(t *testing.T) {
	for pkg, r := range parsePackages(t) {
		for imported, file := range r.imports() {
			for lib, packages := range owners() {
				if strings.HasPrefix(imported, lib) && !ownedBy(pkg, packages) {
					t.Errorf("%s imports %s, which only %v may", file, imported, packages)
				}
			}
		}
	}
}

func ownedBy(pkg string, packages []string) bool {
	for _, r := range packages {
		if pkg == r || strings.HasPrefix(pkg, r+"/") {
			return true
		}
	}
	return false
}
