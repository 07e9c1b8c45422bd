// Times franz-go's sticky balancer on one group file, through its public API, and prints one JSON object per line:
// {"surface", "begins"} before the first run of each surface, {"surface", "peak_kb"} after it, {"surface", "ms", "cpu_ms"}
// after each run: wall clock, and processor time of the calling thread.
//
// Arguments: balancer (sticky, cooperative-sticky), group file, file for the owners, seconds per surface, most runs.
package main

import (
	"encoding/binary"
	"fmt"
	"log"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// group is what a leader gets: partition counts by topic, and the JoinGroup metadata of each member.
type group struct {
	topics  map[string]int32
	counts  []int32
	members []kmsg.JoinGroupResponseMember
}

// readGroup reads the layout that group_file.py describes.
func readGroup(path string) (group, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return group{}, err
	}
	next := func() int {
		value := int(binary.BigEndian.Uint32(data))
		data = data[4:]
		return value
	}
	g := group{topics: map[string]int32{}}
	for t, n := 0, next(); t < n; t++ {
		count := int32(next())
		g.counts = append(g.counts, count)
		g.topics[fmt.Sprintf("t%05d", t)] = count
	}
	for m, n := 0, next(); m < n; m++ {
		length := next()
		member := kmsg.NewJoinGroupResponseMember()
		member.MemberID = fmt.Sprintf("m%05d", m)
		member.ProtocolMetadata = data[:length]
		data = data[length:]
		g.members = append(g.members, member)
	}
	return g, nil
}

// surface is one way to call the balancer; prepare and owners are not timed.
type surface struct {
	name    string
	prepare func() error
	run     func() error
	plan    func() []kmsg.SyncGroupRequestGroupAssignment
}

func surfaces(balancer kgo.GroupBalancer, g group) []surface {
	var parsed kgo.GroupMemberBalancerOrError
	var planned kgo.IntoSyncAssignment
	var written []kmsg.SyncGroupRequestGroupAssignment
	parse := func() error {
		members, _, err := balancer.MemberBalancer(g.members)
		if err == nil {
			parsed = members.(kgo.GroupMemberBalancerOrError)
		}
		return err
	}
	balance := func() (err error) {
		planned, err = parsed.BalanceOrError(g.topics)
		return err
	}
	kernel := surface{
		name:    "kernel",
		prepare: parse,
		run:     balance,
		plan:    func() []kmsg.SyncGroupRequestGroupAssignment { return planned.IntoSyncAssignment() },
	}
	leader := surface{
		name:    "leader",
		prepare: func() error { parsed, planned, written = nil, nil, nil; return nil },
		run: func() error {
			if err := parse(); err != nil {
				return err
			}
			if err := balance(); err != nil {
				return err
			}
			written = planned.IntoSyncAssignment()
			return nil
		},
		plan: func() []kmsg.SyncGroupRequestGroupAssignment { return written },
	}
	return []surface{kernel, leader}
}

// owners is one member code per partition, all topics end to end; -1 where nobody got it.
func (g group) owners(plan []kmsg.SyncGroupRequestGroupAssignment) ([]byte, error) {
	start := make([]int, len(g.counts)+1)
	for t, count := range g.counts {
		start[t+1] = start[t] + int(count)
	}
	out := make([]byte, 4*start[len(g.counts)])
	for i := range out {
		out[i] = 0xff
	}
	for _, given := range plan {
		member, err := strconv.Atoi(given.MemberID[1:])
		if err != nil {
			return nil, err
		}
		topics, err := kgo.ParseConsumerSyncAssignment(given.MemberAssignment)
		if err != nil {
			return nil, err
		}
		for topic, partitions := range topics {
			t, err := strconv.Atoi(topic[1:])
			if err != nil {
				return nil, err
			}
			for _, p := range partitions {
				binary.BigEndian.PutUint32(out[4*(start[t]+int(p)):], uint32(member))
			}
		}
	}
	return out, nil
}

func timeSurface(s surface, g group, ownersFile string, seconds float64, mostRuns int) error {
	spent := 0.0
	for run := 0; run < mostRuns && (run < 3 || spent < seconds); run++ {
		if err := s.prepare(); err != nil {
			return err
		}
		before := 0
		if run == 0 {
			runtime.GC()
			if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
				return err
			}
			before = statusKB("VmRSS:")
			fmt.Printf("{\"surface\": %q, \"begins\": true}\n", s.name)
		}
		cpuBegin, begin := threadTime(), time.Now()
		if err := s.run(); err != nil {
			return err
		}
		took, cpu := time.Since(begin), threadTime()-cpuBegin
		spent += took.Seconds()
		fmt.Printf("{\"surface\": %q, \"ms\": %.4f, \"cpu_ms\": %.4f}\n", s.name, milliseconds(took), milliseconds(cpu))
		if run == 0 {
			fmt.Printf("{\"surface\": %q, \"peak_kb\": %d}\n", s.name, statusKB("VmHWM:")-before)
			owners, err := g.owners(s.plan())
			if err != nil {
				return err
			}
			if err := os.WriteFile(ownersFile, owners, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// threadTime is the processor time of this thread, to which main has locked itself.
func threadTime() time.Duration {
	const thisThread = 1
	var usage syscall.Rusage
	if err := syscall.Getrusage(thisThread, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// statusKB is a figure of this process as Linux counts it; 0 when it is not there.
func statusKB(field string) int {
	status, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(status), "\n") {
		if words := strings.Fields(line); len(words) > 1 && words[0] == field {
			kb, _ := strconv.Atoi(words[1])
			return kb
		}
	}
	return 0
}

func main() {
	log.SetFlags(0)
	runtime.LockOSThread()
	if len(os.Args) != 6 {
		log.Fatal("five arguments are wanted: balancer, group file, owners file, seconds, runs")
	}
	g, err := readGroup(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	seconds, err := strconv.ParseFloat(os.Args[4], 64)
	if err != nil {
		log.Fatal(err)
	}
	mostRuns, err := strconv.Atoi(os.Args[5])
	if err != nil {
		log.Fatal(err)
	}
	balancer := kgo.StickyBalancer()
	if os.Args[1] == "cooperative-sticky" {
		balancer = kgo.CooperativeStickyBalancer()
	}
	for _, s := range surfaces(balancer, g) {
		if err := timeSurface(s, g, os.Args[3], seconds, mostRuns); err != nil {
			log.Fatal(err)
		}
	}
}
