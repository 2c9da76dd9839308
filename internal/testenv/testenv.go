// Package testenv tells tests where the servers are that they need, and what becomes of a test whose server is not there.
package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// required says that tests must not skip: RMQDEDUP_REQUIRE_SERVERS=1, which make test and CI set.
func required() bool { return os.Getenv("RMQDEDUP_REQUIRE_SERVERS") == "1" }

// Require returns the value of an environment variable that names a server, such as RMQDEDUP_REDIS. Without it the test is
// skipped, or fails where servers are required, and either way says how to start the server.
func Require(t testing.TB, name string) string {
	t.Helper()
	if value := os.Getenv(name); value != "" {
		return value
	}
	giveUp(t, fmt.Sprintf(`%s names no server. Start it: make up && eval "$(make -s env)"`, name))
	return ""
}

// RequireProgram returns where a program of that name is, for tests that start a server of their own. Without it the test is skipped, or
// fails where servers are required, and either way says which Debian package has it.
func RequireProgram(t testing.TB, name, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		giveUp(t, fmt.Sprintf("there is no %s on this machine. Install it: apt-get install %s", name, debianPackage))
	}
	return path
}

func giveUp(t testing.TB, why string) {
	t.Helper()
	if required() {
		t.Fatal(why)
	}
	t.Skip(why)
}
