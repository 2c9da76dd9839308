package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// A setNX is redis-benchmark, which sends SET NX of distinct keys on so many connections, without pipelining.
type setNX struct {
	table     *stateTable
	path      string
	clients   int
	perSecond float64 // as it was last time, from which the number of requests is worked out
}

const (
	firstRequests = 5000
	// Keys are drawn from so many; of a million about five hundred come twice.
	keySpace = 1_000_000_000
	// the part of a floor's keys behind the table's name
	floorKeys = ":floor:"
)

func newSetNX(t *stateTable, clients int) (*setNX, error) {
	path, err := exec.LookPath("redis-benchmark")
	if err != nil {
		return nil, fmt.Errorf("%w; on Debian it is in the package redis-tools", err)
	}
	return &setNX{table: t, path: path, clients: clients}, nil
}

// run returns SET NX a second.
func (f *setNX) run(ctx context.Context, d time.Duration) (float64, error) {
	if f.perSecond == 0 {
		if err := f.try(ctx); err != nil {
			return 0, err
		}
	}
	got, err := f.requests(ctx, max(f.clients*20, int(f.perSecond*d.Seconds())))
	f.perSecond = got
	return got, err
}

// try looks whether the keys are really set.
func (f *setNX) try(ctx context.Context) (err error) {
	if f.perSecond, err = f.requests(ctx, firstRequests); err != nil {
		return err
	}
	client, err := f.table.client(1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	n := 0
	if err := f.table.eachPage(ctx, client, floorKeys, func(keys []string) error { n += len(keys); return nil }); err != nil {
		return err
	}
	if n < firstRequests*99/100 {
		return fmt.Errorf("redis-benchmark sent %d SET NX, and %d keys are there", firstRequests, n)
	}
	return nil
}

func (f *setNX) requests(ctx context.Context, n int) (perSecond float64, err error) {
	host, port, err := net.SplitHostPort(f.table.server.Host)
	if err != nil {
		return 0, err
	}
	args := []string{"-h", host, "-p", port, "-c", strconv.Itoa(f.clients), "-n", strconv.Itoa(n), "-r", strconv.Itoa(keySpace), "--csv"}
	if number := strings.Trim(f.table.server.Path, "/"); number != "" {
		args = append(args, "--dbnum", number)
	}
	if password, ok := f.table.server.User.Password(); ok {
		args = append(args, "-a", password)
		if user := f.table.server.User.Username(); user != "" {
			args = append(args, "--user", user)
		}
	}
	args = append(args, "set", f.table.name+floorKeys+"__rand_int__", "1", "NX")
	cmd := exec.CommandContext(ctx, f.path, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("redis-benchmark: %w: %.300s", err, stderr.String())
	}
	return rateInCSV(out)
}

// rateInCSV finds the requests a second in what redis-benchmark --csv prints.
func rateInCSV(out []byte) (float64, error) {
	lines, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
	if err != nil || len(lines) < 2 {
		return 0, fmt.Errorf("redis-benchmark printed no table: %.300q", out)
	}
	for i, name := range lines[0] {
		if name == "rps" {
			return strconv.ParseFloat(lines[1][i], 64)
		}
	}
	return 0, fmt.Errorf("redis-benchmark printed no column rps: %.300q", out)
}
