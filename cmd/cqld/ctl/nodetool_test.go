package ctl

import (
	"context"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// nodetoolCommands are the commands of nodetool in Cassandra 5.0, without the subcommands of repair_admin, and some of
// later versions.
const nodetoolCommands = `
	assassinate autorepairstatus bootstrap checktokenmetadata cidrfilteringstats cleanup clearsnapshot clientstats
	compact compactionhistory compactionstats datapaths decommission describecluster describering disableauditlog
	disableautocompaction disablebackup disablebinary disablefullquerylog disablegossip disablehandoff
	disablehintsfordc disableoldprotocolversions drain dropcidrgroup enableauditlog enableautocompaction
	enablebackup enablebinary enablefullquerylog enablegossip enablehandoff enablehintsfordc
	enableoldprotocolversions failuredetector flush forcecompact garbagecollect gcstats getauditlog
	getauthcacheconfig getautorepairconfig getbatchlogreplaythrottle getcidrgroupsofip getcolumnindexsize
	getcompactionthreshold getcompactionthroughput getconcurrency getconcurrentcompactors
	getconcurrentviewbuilders getdefaultrf getendpoints getfullquerylog getguardrailsconfig
	getinterdcstreamthroughput getlogginglevels getmaxhintwindow getseeds getsnapshotthrottle getsstables
	getstreamthroughput gettimeout gettraceprobability gossipinfo help import info invalidatecidrpermissionscache
	invalidatecountercache invalidatecredentialscache invalidatejmxpermissionscache invalidatekeycache
	invalidatenetworkpermissionscache invalidatepermissionscache invalidaterolescache invalidaterowcache join
	listcidrgroups listpendinghints listsnapshots move netstats pausehandoff profileload proxyhistograms
	rangekeysample rebuild rebuild_index recompress_sstables refresh refreshsizeestimates reloadcidrgroupscache
	reloadlocalschema reloadseeds reloadssl reloadtriggers relocatesstables removenode repair repair_admin
	replaybatchlog resetfullquerylog resetlocalschema resumehandoff ring scrub setauthcacheconfig
	setautorepairconfig setbatchlogreplaythrottle setcachecapacity setcachekeystosave setcolumnindexsize
	setcompactionthreshold setcompactionthroughput setconcurrency setconcurrentcompactors
	setconcurrentviewbuilders setdefaultrf setguardrailsconfig sethintedhandoffthrottlekb
	setinterdcstreamthroughput setlogginglevel setmaxhintwindow setsnapshotthrottle setstreamthroughput settimeout
	settraceprobability sjk snapshot sstablerepairedset status statusautocompaction statusbackup statusbinary
	statusgossip statushandoff stop stopdaemon tablehistograms tablestats toppartitions tpstats truncatehints
	updatecidrgroup upgradesstables verify version viewbuildstatus cms`

// TestEveryCommandOfNodetoolIsKnown checks that each command of nodetool exists, or that its substitute is named; and
// not both. Commands of `cqld ctl` that a substitute names exist.
func TestEveryCommandOfNodetoolIsKnown(t *testing.T) {
	var cli struct {
		Ctl Commands `cmd:""`
	}
	k, err := kong.New(&cli, kong.Name("cqld"), kong.BindTo(t.Context(), (*context.Context)(nil)))
	if err != nil {
		t.Fatal(err)
	}
	exists := map[string]bool{}
	for _, n := range k.Model.Children[0].Children {
		exists[n.Name] = true
		for _, a := range n.Aliases {
			exists[a] = true
		}
	}
	for name := range strings.FieldsSeq(nodetoolCommands) {
		text := Substitute(name)
		if exists[name] == (text != "") {
			t.Errorf("%s: exists %t, substitute %q", name, exists[name], text)
		}
		if _, after, ok := strings.Cut(text, "cqld ctl "); ok {
			words := strings.FieldsFunc(after, func(r rune) bool { return !(r >= 'a' && r <= 'z' || r == '_') })
			if !exists[words[0]] {
				t.Errorf("%s: %q names a command that does not exist", name, text)
			}
		}
	}
}
