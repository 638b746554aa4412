// Package systemtables defines the tables of the system keyspaces, in a notation that package schema parses. It
// contains no code and no rows.
//
// Each definition has the table's number in storage, its name and comment, then its columns with their types. P marks
// the partition key, C a clustering column, D one in descending order, S a static column. Names and types equal
// Cassandra 5.0's, because drivers and tools read them. A number is never reused for another table, because nodes of
// different versions exchange rows by these numbers.
//
// The ranges of numbers:
//
//	1 … 23      system
//	101 … 112   system_schema
//	201 … 208   system_auth
//	221 … 224   system_distributed
//	241, 242    system_traces
//	301 … 303   system_virtual_schema
//	321 … 351   system_views
package systemtables

// System defines the keyspace system: one node's own view.
const System = `
1 IndexInfo | built column indexes
	table_name text P; index_name text C; value blob
2 available_ranges | available keyspace/ranges during bootstrap/replace that are ready to be served
	keyspace_name text P; ranges set<blob>
3 available_ranges_v2 | available keyspace/ranges during bootstrap/replace that are ready to be served
	keyspace_name text P; full_ranges set<blob>; transient_ranges set<blob>
4 batches | batches awaiting replay
	id timeuuid P; mutations list<blob>; version int
5 built_views | built views
	keyspace_name text P; view_name text C; status_replicated boolean
6 compaction_history | week-long compaction history
	id timeuuid P; bytes_in bigint; bytes_out bigint; columnfamily_name text; compacted_at timestamp;
	compaction_properties frozen<map<text, text>>; keyspace_name text; rows_merged map<int, bigint>
7 local | information about the local node
	key text P; bootstrapped text; broadcast_address inet; broadcast_port int; cluster_name text; cql_version text;
	data_center text; gossip_generation int; host_id uuid; listen_address inet; listen_port int;
	native_protocol_version text; partitioner text; rack text; release_version text; rpc_address inet; rpc_port int;
	schema_version uuid; tokens set<text>; truncated_at map<uuid, blob>
8 paxos | in-progress paxos proposals
	row_key blob P; cf_id uuid C; in_progress_ballot timeuuid; in_progress_read_ballot timeuuid;
	most_recent_commit blob; most_recent_commit_at timeuuid; most_recent_commit_version int; proposal blob;
	proposal_ballot timeuuid; proposal_version int
9 paxos_repair_history | paxos repair history
	keyspace_name text P; table_name text C; points frozen<list<frozen<tuple<blob, timeuuid>>>>
10 peer_events | events related to peers
	peer inet P; hints_dropped map<timeuuid, int>
11 peer_events_v2 | events related to peers
	peer inet P; peer_port int C; hints_dropped map<timeuuid, int>
12 peers | information about known peers in the cluster
	peer inet P; data_center text; host_id uuid; preferred_ip inet; rack text; release_version text; rpc_address inet;
	schema_version uuid; tokens set<text>
13 peers_v2 | information about known peers in the cluster
	peer inet P; peer_port int C; data_center text; host_id uuid; native_address inet; native_port int;
	preferred_ip inet; preferred_port int; rack text; release_version text; schema_version uuid; tokens set<text>
14 prepared_statements | prepared statements
	prepared_id blob P; logged_keyspace text; query_string text
15 repairs | repairs
	parent_id timeuuid P; cfids set<uuid>; coordinator inet; coordinator_port int; last_update timestamp;
	participants set<inet>; participants_wp set<text>; ranges set<blob>; repaired_at timestamp; started_at timestamp;
	state int
16 size_estimates | per-table primary range size estimates, table is deprecated in favor of table_estimates
	keyspace_name text P; table_name text C; range_start text C; range_end text C; mean_partition_size bigint;
	partitions_count bigint
17 sstable_activity | historic sstable read rates
	keyspace_name text P; columnfamily_name text P; generation int P; rate_120m double; rate_15m double
18 sstable_activity_v2 | historic sstable read rates
	keyspace_name text P; table_name text P; id text P; rate_120m double; rate_15m double
19 table_estimates | per-table range size estimates
	keyspace_name text P; table_name text C; range_type text C; range_start text C; range_end text C;
	mean_partition_size bigint; partitions_count bigint
20 top_partitions | Stores the top partitions
	keyspace_name text P; table_name text C; top_type text C; last_update timestamp;
	top frozen<list<frozen<tuple<text, bigint>>>>
21 transferred_ranges | record of transferred ranges for streaming operation
	operation text P; keyspace_name text P; peer inet C; ranges set<blob>
22 transferred_ranges_v2 | record of transferred ranges for streaming operation
	operation text P; keyspace_name text P; peer inet C; peer_port int C; ranges set<blob>
23 view_builds_in_progress | views builds current progress
	keyspace_name text P; view_name text C; start_token text C; end_token text C; keys_built bigint; last_token text
`

// SystemSchema defines the keyspace system_schema: the schema as rows. They are computed from the Schema when
// they are read.
const SystemSchema = `
101 aggregates | user defined aggregate definitions
	keyspace_name text P; aggregate_name text C; argument_types frozen<list<text>> C; final_func text; initcond text;
	return_type text; state_func text; state_type text
102 column_masks | column dynamic data masks
	keyspace_name text P; table_name text C; column_name text C; function_argument_nulls frozen<list<boolean>>;
	function_argument_types frozen<list<text>>; function_argument_values frozen<list<text>>; function_keyspace text;
	function_name text
103 columns | column definitions
	keyspace_name text P; table_name text C; column_name text C; clustering_order text; column_name_bytes blob;
	kind text; position int; type text
104 dropped_columns | dropped column registry
	keyspace_name text P; table_name text C; column_name text C; dropped_time timestamp; kind text; type text
105 functions | user defined function definitions
	keyspace_name text P; function_name text C; argument_types frozen<list<text>> C; argument_names frozen<list<text>>;
	body text; called_on_null_input boolean; language text; return_type text
106 indexes | secondary index definitions
	keyspace_name text P; table_name text C; index_name text C; kind text; options frozen<map<text, text>>
107 keyspaces | keyspace definitions
	keyspace_name text P; durable_writes boolean; replication frozen<map<text, text>>
108 tables | table definitions
	keyspace_name text P; table_name text C; additional_write_policy text; allow_auto_snapshot boolean;
	bloom_filter_fp_chance double; caching frozen<map<text, text>>; cdc boolean; comment text;
	compaction frozen<map<text, text>>; compression frozen<map<text, text>>; crc_check_chance double;
	dclocal_read_repair_chance double; default_time_to_live int; extensions frozen<map<text, blob>>;
	flags frozen<set<text>>; gc_grace_seconds int; id uuid; incremental_backups boolean; max_index_interval int;
	memtable text; memtable_flush_period_in_ms int; min_index_interval int; read_repair text;
	read_repair_chance double; speculative_retry text
109 triggers | trigger definitions
	keyspace_name text P; table_name text C; trigger_name text C; options frozen<map<text, text>>
110 types | user defined type definitions
	keyspace_name text P; type_name text C; field_names frozen<list<text>>; field_types frozen<list<text>>
112 column_constraints | column constraints, which Cassandra 6 has
	keyspace_name text P; table_name text C; column_name text C; constraints text
111 views | view definitions
	keyspace_name text P; view_name text C; additional_write_policy text; allow_auto_snapshot boolean;
	base_table_id uuid; base_table_name text; bloom_filter_fp_chance double; caching frozen<map<text, text>>;
	cdc boolean; comment text; compaction frozen<map<text, text>>; compression frozen<map<text, text>>;
	crc_check_chance double; dclocal_read_repair_chance double; default_time_to_live int;
	extensions frozen<map<text, blob>>; gc_grace_seconds int; id uuid; include_all_columns boolean;
	incremental_backups boolean; max_index_interval int; memtable text; memtable_flush_period_in_ms int;
	min_index_interval int; read_repair text; read_repair_chance double; speculative_retry text; where_clause text
`

// SystemAuth defines the keyspace system_auth. The name of resource_role_permissons_index is misspelled in
// Cassandra, too.
const SystemAuth = `
201 cidr_groups | cidr groups to cidrs mapping
	cidr_group text P; cidrs frozen<set<frozen<tuple<inet, smallint>>>>
202 cidr_permissions | user cidr permissions
	role text P; cidr_groups frozen<set<text>>
203 identity_to_role | mtls authorized identities lookup table
	identity text P; role text
204 network_permissions | user network permissions
	role text P; dcs frozen<set<text>>
205 resource_role_permissons_index | index of db roles with permissions granted on a resource
	resource text P; role text C
206 role_members | role memberships lookup table
	role text P; member text C
207 role_permissions | permissions granted to db roles
	role text P; resource text C; permissions set<text>
208 roles | role definitions
	role text P; can_login boolean; is_superuser boolean; member_of set<text>; salted_hash text
`

// SystemDistributed defines the keyspace system_distributed.
const SystemDistributed = `
221 parent_repair_history | Repair history
	parent_id timeuuid P; columnfamily_names set<text>; exception_message text; exception_stacktrace text;
	finished_at timestamp; keyspace_name text; options map<text, text>; requested_ranges set<text>;
	started_at timestamp; successful_ranges set<text>
222 partition_denylist | Partition keys which have been denied access
	ks_name text P; table_name text P; key blob C
223 repair_history | Repair history
	keyspace_name text P; columnfamily_name text P; id timeuuid C; coordinator inet; coordinator_port int;
	exception_message text; exception_stacktrace text; finished_at timestamp; parent_id timeuuid;
	participants set<inet>; participants_v2 set<text>; range_begin text; range_end text; started_at timestamp;
	status text
224 view_build_status | Materialized View build status
	keyspace_name text P; view_name text P; host_id uuid C; status text
`

// SystemTraces defines the keyspace system_traces: the events of traced requests.
const SystemTraces = `
241 events | tracing events
	session_id uuid P; event_id timeuuid C; activity text; source inet; source_elapsed int; source_port int;
	thread text
242 sessions | tracing sessions
	session_id uuid P; client inet; command text; coordinator inet; coordinator_port int; duration int;
	parameters map<text, text>; request text; started_at timestamp
`

// SystemVirtualSchema defines the keyspace system_virtual_schema: the virtual keyspaces as rows.
const SystemVirtualSchema = `
301 columns | virtual column definitions
	keyspace_name text P; table_name text C; column_name text C; clustering_order text; column_name_bytes blob;
	kind text; position int; type text
302 keyspaces | virtual keyspace definitions
	keyspace_name text P
303 tables | virtual table definitions
	keyspace_name text P; table_name text C; comment text
`

// SystemViews defines the keyspace system_views: the state of a node.
const SystemViews = `
321 clients | currently connected clients
	address inet P; port int C; client_options frozen<map<text, text>>; connection_stage text; driver_name text;
	driver_version text; hostname text; keyspace_name text; protocol_version int; request_count bigint;
	ssl_cipher_suite text; ssl_enabled boolean; ssl_protocol text; username text
322 settings | current settings
	name text P; value text
324 sai_column_indexes | Storage-attached column index metadata
	keyspace_name text P; index_name text C; analyzer text; column_name text; is_building boolean; is_queryable boolean;
	is_string boolean; table_name text
323 jobs | long-running work: repairs, rebuilds, cleanups, compactions and changes of the ring
	id text P; attempt int; completion_ratio double; created_at timestamp; ended_at timestamp; error text; kind text; phase text;
	progress bigint; remaining_seconds bigint; resumable boolean; started_at timestamp; state text; target text; total bigint; unit text
351 ranges | load of the physical partitions: token ranges of the ring, summed over the nodes that hold them
	range_end bigint P; charge_per_second double; charge_per_second_2m double; charge_share double; hottest_key text;
	hottest_keyspace text; hottest_share double; hottest_table text; hottest_token bigint; nodes frozen<list<text>>;
	range_start bigint; reads_per_second double; size_on_disk bigint; writes_per_second double
331 caches | system caches
	name text P; capacity_bytes bigint; entry_count int; hit_count bigint; hit_ratio double; recent_hit_rate_per_second bigint;
	recent_request_rate_per_second bigint; request_count bigint; size_bytes bigint
332 disk_usage
	keyspace_name text P; table_name text P; mebibytes bigint
333 local_read_latency
	keyspace_name text P; table_name text P; count bigint; max_ms double; p50th_ms double; p99th_ms double; per_second double
347 schema_comments
	object_type text P; keyspace_name text P; table_name text C; column_name text C; udt_name text C; field_name text C; comment text
348 schema_security_labels
	object_type text P; keyspace_name text P; table_name text C; column_name text C; udt_name text C; field_name text C; security_label text
344 batch_metrics | Metrics specific to batch statements
	name text P; max bigint; p50th double; p999th double; p99th double
345 cql_metrics | Metrics specific to CQL prepared statement caching
	name text P; value double
349 dropped_tables | dropped tables that UNDROP TABLE can restore
	keyspace_name text P; table_name text C; id uuid C; dropped_at timestamp; reason text; restorable_until timestamp;
	size_on_disk bigint
350 dropped_keyspaces | dropped keyspaces that UNDROP KEYSPACE can restore
	keyspace_name text P; id bigint C; dropped_at timestamp; restorable_until timestamp; size_on_disk bigint; tables int
346 snapshots | available snapshots
	name text P; keyspace_name text C; table_name text C; created_at timestamp; ephemeral boolean; expires_at timestamp;
	size_on_disk bigint; true_size bigint
340 local_scan_latency
	keyspace_name text P; table_name text P; count bigint; max_ms double; p50th_ms double; p99th_ms double; per_second double
341 local_write_latency
	keyspace_name text P; table_name text P; count bigint; max_ms double; p50th_ms double; p99th_ms double; per_second double
337 coordinator_read_latency
	keyspace_name text P; table_name text P; count bigint; max_ms double; p50th_ms double; p99th_ms double; per_second double
338 coordinator_scan_latency
	keyspace_name text P; table_name text P; count bigint; max_ms double; p50th_ms double; p99th_ms double; per_second double
339 coordinator_write_latency
	keyspace_name text P; table_name text P; count bigint; max_ms double; p50th_ms double; p99th_ms double; per_second double
342 rows_per_read
	keyspace_name text P; table_name text P; count bigint; max double; p50th double; p99th double
343 tombstones_per_read
	keyspace_name text P; table_name text P; count bigint; max double; p50th double; p99th double
334 pending_hints | Pending hints that this node has for other nodes
	host_id uuid P; address inet; dc text; files int; newest timestamp; oldest timestamp; port int; rack text; status text
336 queries | Lists currently running queries
	thread_id text P; queued_micros bigint; running_micros bigint; task text
335 thread_pools
	name text P; active_tasks int; active_tasks_limit int; blocked_tasks bigint; blocked_tasks_all_time bigint; completed_tasks bigint;
	pending_tasks int
`
