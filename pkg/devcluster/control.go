package devcluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

// The supervisor listens on a socket in the data folder. A connection carries one request
// and lines of replies; the last says done.

type request struct {
	Verb    string  `json:"verb"` // status, stop, provision, deprovision
	Landing Landing `json:"landing"`
}

type reply struct {
	Progress  string    `json:"progress,omitempty"`
	Done      bool      `json:"done,omitempty"`
	Error     string    `json:"error,omitempty"`
	Processes []Process `json:"processes,omitempty"`
}

func controlSocket(data string) string { return filepath.Join(data, "control.sock") }

// listen opens the socket. Only the supervisor's own user (and root) can reach it: the data
// folder is closed to others.
func listen(data string) (net.Listener, error) {
	path := controlSocket(data)
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return l, nil
}

// handler answers one request; say sends a line of progress.
type handler func(ctx context.Context, r request, say func(string)) ([]Process, error)

// serve answers requests until the listener is closed.
func serve(ctx context.Context, l net.Listener, h handler) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
			var r request
			if err := json.NewDecoder(c).Decode(&r); err != nil {
				return
			}
			enc := json.NewEncoder(c)
			processes, err := h(ctx, r, func(line string) { _ = enc.Encode(reply{Progress: line}) })
			last := reply{Done: true, Processes: processes}
			if err != nil {
				last.Error = err.Error()
			}
			_ = enc.Encode(last)
		}()
	}
}

// ask sends a request to the cluster's supervisor and returns its last reply.
func (f folder) ask(ctx context.Context, r request, progress func(string)) (reply, error) {
	data, err := f.dataDir()
	if err != nil {
		return reply{}, err
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", controlSocket(data))
	if err != nil {
		return reply{}, fmt.Errorf("local fleet in %s: its supervisor does not answer (%w): take down what is left with vifl dev down", string(f), err)
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if err := json.NewEncoder(c).Encode(r); err != nil {
		return reply{}, fmt.Errorf("local fleet: ask its supervisor: %w", err)
	}
	lines := bufio.NewScanner(c)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var got reply
		if err := json.Unmarshal(lines.Bytes(), &got); err != nil {
			return reply{}, fmt.Errorf("local fleet: reply of its supervisor: %w", err)
		}
		switch {
		case got.Done && got.Error != "":
			return got, errors.New(got.Error)
		case got.Done:
			return got, nil
		case progress != nil:
			progress(got.Progress)
		}
	}
	if err := ctx.Err(); err != nil {
		return reply{}, fmt.Errorf("local fleet: wait for %s by its supervisor: %w", r.Verb, err)
	}
	return reply{}, errors.New("local fleet: its supervisor ended before it answered: see vifl dev status")
}
