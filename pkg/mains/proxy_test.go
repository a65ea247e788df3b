package mains

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy passes connections on to a server until a client sends COMMIT; then it cuts both
// ends, before the server got it, or as soon as the server has answered it.
type proxy struct {
	port int
	cut  atomic.Int32
}

func cutAtCommit(t *testing.T, port int, deliver bool) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{port: l.Addr().(*net.TCPAddr).Port}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err != nil {
				_ = client.Close()
				continue
			}
			wg.Go(func() { p.serve(client, server, deliver) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return p
}

func (p *proxy) serve(client, server net.Conn, deliver bool) {
	var committing atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer client.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			if committing.Load() {
				return // the answer to COMMIT: it goes no further
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	defer func() { _ = client.Close(); _ = server.Close(); <-done }()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if bytes.Contains(buf[:n], []byte("COMMIT")) {
			p.cut.Add(1)
			committing.Store(true)
			if !deliver {
				return
			}
			if _, err := server.Write(buf[:n]); err == nil {
				_, _ = io.Copy(io.Discard, client) // until the other half has hung up
			}
			return
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}
