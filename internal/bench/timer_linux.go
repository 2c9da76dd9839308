package main

import (
	"os"
	"syscall"
	"time"
	"unsafe"
)

// An exactTimer is a timer of the system's that Go's poller waits for. time.Sleep would not do: an idle program waits in epoll, whose time-outs are
// whole milliseconds, so that half a millisecond becomes a whole one. Nor would nanosleep, which keeps a processor from the program's other goroutines.
type exactTimer struct {
	fd   uintptr
	file *os.File // of fd
}

func newTimer() (timer, error) {
	const monotonic, flags = 1, syscall.O_NONBLOCK | syscall.O_CLOEXEC
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, monotonic, flags, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("timerfd_create", errno)
	}
	return &exactTimer{fd, os.NewFile(fd, "timerfd")}, nil
}

func (t *exactTimer) wait(d time.Duration) error {
	spec := struct{ interval, value syscall.Timespec }{value: syscall.NsecToTimespec(d.Nanoseconds())}
	if _, _, errno := syscall.Syscall6(syscall.SYS_TIMERFD_SETTIME, t.fd, 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0); errno != 0 {
		return os.NewSyscallError("timerfd_settime", errno)
	}
	_, err := t.file.Read(make([]byte, 8)) // returns when it has gone off
	return err
}

func (t *exactTimer) Close() error { return t.file.Close() }
