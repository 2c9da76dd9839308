package main

import (
	"bytes"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

const half = 500 * time.Microsecond

// bubbleTimer is exact, as the bubble's clock is.
type bubbleTimer struct{}

func (bubbleTimer) wait(d time.Duration) error { time.Sleep(d); return nil }
func (bubbleTimer) Close() error               { return nil }

// line starts one direction and returns its ends.
func line(t *testing.T) (near, far net.Conn) {
	t.Helper()
	near, in := net.Pipe()
	out, far := net.Pipe()
	go carry(out, in, half, bubbleTimer{})
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

func send(t *testing.T, c net.Conn, data string) {
	t.Helper()
	if _, err := c.Write([]byte(data)); err != nil {
		t.Error(err)
	}
}

// receive reads so many bytes, and says when they had all come.
func receive(t *testing.T, c net.Conn, n int, begin time.Time) (data string, at time.Duration) {
	t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(c, b); err != nil {
		t.Error(err)
	}
	return string(b), time.Since(begin)
}

func TestEachByteIsDelayedByTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := line(t)
		begin := time.Now()
		go func() {
			send(t, near, "a")
			time.Sleep(half / 2)
			send(t, near, "b")
			time.Sleep(10 * half)
			send(t, near, "c")
		}()
		want := []time.Duration{half, half + half/2, half + half/2 + 10*half}
		var at []time.Duration
		for _, c := range []string{"a", "b", "c"} {
			got, when := receive(t, far, 1, begin)
			if got != c {
				t.Errorf("%q came, want %q", got, c)
			}
			at = append(at, when)
		}
		if !slices.Equal(at, want) {
			t.Errorf("they came at %v, want %v", at, want)
		}
	})
}

// A line that took up no more while bytes wait would need a delay for each of these parts.
func TestTheDelayDoesNotLimitThroughput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := line(t)
		begin := time.Now()
		const parts, size = 1000, 10_000
		go func() {
			for i := range parts {
				send(t, near, string(bytes.Repeat([]byte{byte(i)}, size)))
			}
			if took := time.Since(begin); took != 0 {
				t.Errorf("the sender had to wait for %v", took)
			}
		}()
		got, at := receive(t, far, parts*size, begin)
		if at != half {
			t.Errorf("all came after %v, want %v", at, half)
		}
		for i := range parts {
			if got[i*size] != byte(i) || got[(i+1)*size-1] != byte(i) {
				t.Fatalf("part %d is not in its place", i)
			}
		}
	})
}

func TestWhatWasSentBeforeTheEndStillComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := line(t)
		begin := time.Now()
		send(t, near, "last")
		near.Close()
		if got, at := receive(t, far, 4, begin); got != "last" || at != half {
			t.Errorf("%q came at %v", got, at)
		}
		if _, err := far.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // net.Pipe's, unwrapped
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestAReceiverThatGoesEndsTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, in := net.Pipe()
		out, far := net.Pipe()
		ended := make(chan struct{})
		go func() {
			carry(out, in, half, bubbleTimer{})
			close(ended)
		}()
		far.Close()
		send(t, near, "a")
		<-ended
		if _, err := near.Write([]byte("b")); err == nil {
			t.Error("the sender was not told")
		}
	})
}
