package main

import (
	"io"
	"net"
	"testing"
	"time"
)

// The proxy answers from the server, through a connection for each client, and leaves nothing running.
func TestProxy(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	s := &stage{}
	s.close(server)
	p, err := newProxy(t.Context(), s, server.Addr().String(), time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	var clients []net.Conn
	for _, word := range []string{"one", "two"} {
		c, err := net.Dial("tcp", p.address())
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
		if _, err := c.Write([]byte(word)); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(word))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != word {
			t.Errorf("%q came back, %v; want %q", got, err, word)
		}
	}
	if err := s.undo(); err != nil { // waits for everything
		t.Error(err)
	}
	for _, c := range clients {
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Error("a connection outlived the proxy")
		}
		c.Close()
	}
}

func TestMeasureRoundTrip(t *testing.T) {
	if _, err := measureRoundTrip(t.Context(), time.Microsecond); err != nil {
		t.Error(err)
	}
}
