package mysql_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	osuser "os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rmqdedup/rmqdedup-go/internal/testenv"
)

// startServer starts a MariaDB of one test's own until that ends, for what cannot be done to one that others use too, and returns a DSN
// without options. It listens on a socket alone.
func startServer(t testing.TB, settings ...string) string {
	t.Helper()
	install := testenv.RequireProgram(t, "mariadb-install-db", "mariadb-server")
	program := testenv.RequireProgram(t, "mariadbd", "mariadb-server")
	me, err := osuser.Current()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "rmqdedup") //nolint:usetesting // a socket's path has at most 107 characters, which that of t.TempDir may exceed
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	data, socket := filepath.Join(dir, "data"), filepath.Join(dir, "sock")
	out, err := exec.Command(install, "--no-defaults", "--datadir="+data, "--user="+me.Username,
		"--auth-root-authentication-method=normal", "--skip-test-db").CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", install, err, out)
	}
	init := filepath.Join(dir, "init.sql")
	if err := os.WriteFile(init, []byte("CREATE DATABASE IF NOT EXISTS test;\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	server := exec.Command(program, append([]string{"--no-defaults", "--datadir=" + data, "--user=" + me.Username, "--socket=" + socket,
		"--skip-networking", "--init-file=" + init, "--innodb-buffer-pool-size=16M"}, settings...)...)
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	var why error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		why = server.Wait()
	}()
	t.Cleanup(func() {
		if err := server.Process.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
		<-ended
	})
	dsn := "root@unix(" + socket + ")/test"
	db := openDSN(t, dsn)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := db.PingContext(ctx)
		if err == nil {
			return dsn
		}
		select {
		case <-tick.C:
		case <-ended:
			t.Fatalf("mariadbd %s ended: %v\n%s", strings.Join(settings, " "), why, log.String())
		case <-ctx.Done():
			t.Fatalf("mariadbd does not answer: %v", err)
		}
	}
}
