package ctl

import "strings"

// Substitute returns what to use instead of a nodetool command that `cqld ctl` does not have, or "" for other names.
// name is in lower case. Error messages of the command line use it (unknownCommand of package main).
func Substitute(name string) string {
	// A paragraph starts with its text and ends with an empty line.
	for paragraph := range strings.SplitSeq(substitutes, "\n\n") {
		text, names, _ := strings.Cut(strings.TrimSpace(paragraph), "\n")
		for n := range strings.FieldsSeq(names) {
			if n == name {
				return text
			}
		}
	}
	return ""
}

// substitutes has one paragraph for each substitute: what to use, then the nodetool commands that it replaces, on lines
// of their own. These must not be commands of cqld ctl.
const substitutes = `
there is no gossip: membership is in the metadata log; see cqld ctl members
	disablegossip enablegossip statusgossip failuredetector checktokenmetadata reloadseeds

use cqld ctl removenode, which works while the node is dead
	assassinate

use cqld ctl operations, and start the node again: a join continues
	bootstrap bootstrapresume join

use cqld ctl compactionstats
	compactionhistory getconcurrentcompactors getcompactionthroughput getcompactionthreshold gcstats
	datapaths getsstables

compaction cannot be configured: Pebble adapts it to the load; see cqld ctl compactionstats
	setcompactionthroughput setcompactionthreshold setconcurrentcompactors disableautocompaction
	enableautocompaction statusautocompaction stop

use cqld ctl compact
	forcecompact upgradesstables garbagecollect relocatesstables recompress_sstables sstablerepairedset

repairs are jobs: use cqld ctl jobs
	repair_admin

repairs run by themselves; the options are auto_repair_..., and cqld ctl jobs shows them
	autorepairstatus getautorepairconfig setautorepairconfig

use cqld ctl snapshot: there are no incremental backups
	disablebackup enablebackup statusbackup

use cqld ctl snapshot and import; docs/OPERATING_JOBS.md says how to restore one
	refresh getsnapshotthrottle setsnapshotthrottle

use the audit log: cqld ctl enableauditlog
	enablefullquerylog disablefullquerylog getfullquerylog resetfullquerylog

use cqld ctl disablehandoff or enablehandoff, for all data centers
	disablehintsfordc enablehintsfordc pausehandoff resumehandoff truncatehints
	sethintedhandoffthrottlekb

set max_hint_window and restart the node
	getmaxhintwindow setmaxhintwindow

set native_transport_allow_older_protocols and restart the node
	disableoldprotocolversions enableoldprotocolversions

set the timeouts in the file and restart the node; cqld ctl gettimeout shows them
	settimeout

set stream_throughput_outbound and restart the node
	getstreamthroughput setstreamthroughput getinterdcstreamthroughput setinterdcstreamthroughput

use cqld ctl tpstats: the pools cannot be configured
	getconcurrency setconcurrency getconcurrentviewbuilders setconcurrentviewbuilders

use cqld ctl info and the metrics
	proxyhistograms sjk setcachecapacity setcachekeystosave getcolumnindexsize setcolumnindexsize

use cqld ctl toppartitions
	profileload rangekeysample

trace single requests (TRACING ON in cqlsh)
	gettraceprobability settraceprobability

there is no such cache: roles and permissions are always current
	invalidatecredentialscache invalidatepermissionscache invalidaterolescache
	invalidatenetworkpermissionscache invalidatejmxpermissionscache invalidatecidrpermissionscache
	reloadcidrgroupscache getauthcacheconfig setauthcacheconfig

there is no such cache: blocks of files and rows are cached (block_cache_size, point_read_cache_size)
	invalidatekeycache invalidatecountercache

rows in the cache are always current (point_read_cache_size)
	invalidaterowcache

there are no such statistics; the log names refused logins
	cidrfilteringstats

the schema is in the metadata log, and is always current
	reloadlocalschema resetlocalschema refreshsizeestimates reloadtriggers

set the guardrails in the file and restart the node
	getguardrailsconfig setguardrailsconfig getdefaultrf setdefaultrf

batches are replayed by themselves
	replaybatchlog getbatchlogreplaythrottle setbatchlogreplaythrottle

see docs/limits.md: change data capture and Accord do not exist
	cms consensus_admin accord`
