package devcluster

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/vifl/vifl/pkg/mysqld"
)

// Process is one process of a cluster.
type Process struct {
	Name    string `json:"name"`
	Pid     int    `json:"pid"`
	Address string `json:"address"` // host:port that clients use; empty when there is none
	Socket  string `json:"socket,omitempty"`
	Landing string `json:"landing,omitempty"` // keyspace, of tablets and their mysqlds
	Up      bool   `json:"up"`
	Memory  int64  `json:"memory_bytes"` // resident; 0 when it is not up
}

// processes are all processes that the cluster should have.
func (c *cluster) processes() []Process {
	list := []Process{{Name: "supervisor+etcd", Pid: os.Getpid(), Address: c.etcd.Address, Up: true}}
	server := func(s *mysqld.Server) {
		p := Process{Name: s.Name(), Pid: s.Pid(), Address: serverAddress(s), Socket: s.Socket()}
		select {
		case <-s.Exited():
		default:
			p.Up = true
		}
		list = append(list, p)
	}
	if c.mains != nil {
		server(c.mains)
	}
	for _, sh := range c.legacy {
		for _, s := range sh.sides {
			if s != nil {
				server(s)
			}
		}
	}
	c.started.Lock()
	for _, d := range c.daemons {
		list = append(list, Process{Name: d.name, Pid: d.proc.Pid(), Address: d.address, Up: d.proc.Running()})
	}
	c.started.Unlock()
	c.landings.list.Lock()
	for _, t := range c.landings.tablets {
		p := Process{Name: t.name(), Landing: t.keyspace, Address: fmt.Sprintf("127.0.0.1:%d", t.ports.grpc)}
		if t.proc != nil {
			p.Pid, p.Up = t.proc.Pid(), t.proc.Running()
		}
		pid := c.mysqlPid(t)
		list = append(list, p, Process{
			Name: t.name() + " mysqld", Landing: t.keyspace, Pid: pid, Up: pid != 0,
			Address: fmt.Sprintf("127.0.0.1:%d", t.ports.mysql), Socket: c.tabletDir(t) + "/mysql.sock",
		})
	}
	c.landings.list.Unlock()
	for i := range list {
		if list[i].Up {
			list[i].Memory = resident(list[i].Pid)
		}
	}
	return list
}

// resident is a process' memory in bytes, 0 when it cannot be read.
func resident(pid int) int64 {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "VmRSS:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				return 0
			}
			return kb << 10
		}
	}
	return 0
}

// Status asks the cluster's supervisor for its processes. ErrAbsent when there is no
// cluster in dir.
func Status(ctx context.Context, dir string) ([]Process, error) {
	f, err := openFolder(dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	got, err := f.ask(ctx, request{Verb: "status"}, nil)
	return got.Processes, err
}

// Provision asks the cluster for the tablets of a landing and waits until they are up;
// lines of progress go to progress. It is idempotent.
func Provision(ctx context.Context, dir string, l Landing, progress func(string)) error {
	f, err := openFolder(dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, provisionTimeout+time.Minute)
	defer cancel()
	_, err = f.ask(ctx, request{Verb: "provision", Landing: l}, progress)
	return err
}

// Deprovision asks the cluster to end and remove the tablets of a landing. It is idempotent.
func Deprovision(ctx context.Context, dir string, l Landing) error {
	f, err := openFolder(dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, downTimeout+time.Minute)
	defer cancel()
	_, err = f.ask(ctx, request{Verb: "deprovision", Landing: l}, nil)
	return err
}
