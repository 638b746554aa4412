package memory

import (
	"errors"
	"testing"
	"testing/fstest"
)

// files is a file system for Detect; a nil map has neither /proc nor /sys.
func files(pairs ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return m
}

func TestDetect(t *testing.T) {
	const v2 = "29 23 0:26 / /sys/fs/cgroup ro,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	const v1 = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup " +
		"cgroup rw,memory\n"
	unlimitedV1 := "9223372036854771712\n"
	for _, c := range []struct {
		name  string
		files fstest.MapFS
		want  int64
		from  string
	}{
		{"nothing is visible", files(), 1000, "the memory of the machine"},
		{"version 2, a unit", files("proc/self/cgroup", "0::/system.slice/cqld.service\n", "proc/self/mountinfo", v2,
			"sys/fs/cgroup/system.slice/cqld.service/memory.max", "500\n",
			"sys/fs/cgroup/system.slice/cqld.service/memory.high", "max\n"),
			500, "/sys/fs/cgroup/system.slice/cqld.service/memory.max"},
		{"version 2, memory.high is less", files("proc/self/cgroup", "0::/a\n", "proc/self/mountinfo", v2,
			"sys/fs/cgroup/a/memory.max", "500\n", "sys/fs/cgroup/a/memory.high", "400\n"), 400,
			"/sys/fs/cgroup/a/memory.high"},
		{"version 2, a slice above limits more", files("proc/self/cgroup", "0::/a/b/c\n", "proc/self/mountinfo", v2,
			"sys/fs/cgroup/a/b/c/memory.max", "500\n", "sys/fs/cgroup/a/b/memory.max", "max\n",
			"sys/fs/cgroup/a/memory.max", "300\n"),
			300, "/sys/fs/cgroup/a/memory.max"},
		{"version 2, a namespace: the group is the root", files("proc/self/cgroup", "0::/\n", "proc/self/mountinfo", v2,
			"sys/fs/cgroup/memory.max", "600\n"), 600, "/sys/fs/cgroup/memory.max"},
		{"version 2, a container without a namespace", files("proc/self/cgroup", "0::/docker/1234\n",
			"proc/self/mountinfo",
			"29 23 0:26 /docker/1234 /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "sys/fs/cgroup/memory.max", "700\n"),
			700, "/sys/fs/cgroup/memory.max"},
		{"version 2, a group above the visible ones", files("proc/self/cgroup", "0::/../other\n",
			"proc/self/mountinfo", v2,
			"sys/fs/cgroup/memory.max", "800\n"), 800, "/sys/fs/cgroup/memory.max"},
		{"version 1", files("proc/self/cgroup", "9:name=systemd:/\n4:memory:/group\n0::/\n", "proc/self/mountinfo", v1,
			"sys/fs/cgroup/memory/group/memory.limit_in_bytes", "500\n", "sys/fs/cgroup/memory/memory.limit_in_bytes",
			unlimitedV1),
			500, "/sys/fs/cgroup/memory/group/memory.limit_in_bytes"},
		{"version 1, a group above limits more", files("proc/self/cgroup", "4:cpu,memory:/a/b\n",
			"proc/self/mountinfo", v1,
			"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", unlimitedV1,
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes", "200\n"),
			200, "/sys/fs/cgroup/memory/a/memory.limit_in_bytes"},
		{"version 1, no limit", files("proc/self/cgroup", "4:memory:/a\n", "proc/self/mountinfo", v1,
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes", unlimitedV1), 1000, "the memory of the machine"},
		{"a limit above the machine's memory", files("proc/self/cgroup", "0::/a\n", "proc/self/mountinfo", v2,
			"sys/fs/cgroup/a/memory.max", "5000\n"), 1000, "the memory of the machine"},
	} {
		f, err := Detect(System{Root: c.files, Machine: func() int64 { return 1000 }})
		if err != nil || f.Bytes != c.want || f.Source != c.from {
			t.Errorf("%s: %d of %s, %v; want %d of %s", c.name, f.Bytes, f.Source, err, c.want, c.from)
		}
	}
	if _, err := Detect(System{Root: files(), Machine: func() int64 { return 0 }}); !errors.Is(err, ErrUnknown) {
		t.Errorf("an unknown machine: %v", err)
	}
	if f, err := Detect(Local()); err != nil || f.Bytes < 64*mib {
		t.Errorf("this machine: %+v, %v", f, err)
	}
	if c := Local().Count(); c.Resident < mib {
		t.Errorf("this process has %+v", c)
	}
}
