package childtest

import (
	"os/exec"
	"testing"
	"time"
)

// busy burns about as much processor time as it says, in a grandchild that has ended before
// its parent does.
const busy = `sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done' & wait; `

func TestDescendantsAreCountedAlsoWhenTheyEnded(t *testing.T) {
	ended := func() {
		if err := exec.Command("sh", "-c", busy).Run(); err != nil {
			t.Error(err)
		}
	}
	wall, cpu := Measure(t, ended)
	if cpu < 50*time.Millisecond || cpu > 2*wall+time.Second {
		t.Errorf("an ended grandchild: %s of processor time in %s", cpu, wall)
	}
	if _, idle := Measure(t, func() { time.Sleep(50 * time.Millisecond) }); idle > cpu/2 {
		t.Errorf("what ended before is counted again: %s of %s", idle, cpu)
	}
}

func TestExceptedProcessesAreNotCounted(t *testing.T) {
	for _, excepted := range []bool{false, true} {
		// It says when its work is done, and stays.
		cmd := exec.Command("sh", "-c", "read go; "+busy+"echo done; read end")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var except []int
		if excepted {
			except = []int{cmd.Process.Pid}
		}
		_, cpu := Measure(t, func() {
			if _, err := in.Write([]byte("\n")); err != nil {
				t.Error(err)
			}
			if _, err := out.Read(make([]byte, 8)); err != nil {
				t.Error(err)
			}
		}, except...)
		_ = in.Close()
		_ = cmd.Wait()
		if counted := cpu >= 50*time.Millisecond; counted == excepted {
			t.Errorf("a busy process, excepted %v: counted %s", excepted, cpu)
		}
	}
}

func TestParse(t *testing.T) {
	const line = "42 (a (b) c) S 7 42 42 0 -1 4194560 1 2 3 4 100 50 25 5 20 0 1 0 9 9 9"
	pid, parent, spent, err := parse(line)
	if err != nil || pid != 42 || parent != 7 || spent != 1800*time.Millisecond {
		t.Errorf("%d %d %s %v", pid, parent, spent, err)
	}
	if _, _, _, err := parse("42 (x"); err == nil {
		t.Error("half a line was taken")
	}
}
