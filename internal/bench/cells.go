package main

import "time"

// cells are those of the table, in its order. Each list reads: on which store, with how much of what, and what is to be reached.
func cells() []cell {
	var all []cell
	for _, c := range []againstFloor{
		{"redis", 1, 0.7}, {"redis", 20, 1.3}, {"redis", 64, 2.2},
		{"mysql", 1, 0.9}, {"mysql", 20, 1.4}, {"mysql", 64, 3.0},
		{"mariadb", 1, 0.9}, {"mariadb", 20, 1.4}, {"mariadb", 64, 3.0},
	} {
		all = append(all, c.cell())
	}
	within := atLeast(1 / 1.3) // times of the limit
	for _, c := range []againstLimit{
		{"redis", 1, reported()}, {"redis", 8, reported()}, {"redis", 64, within},
		{"mysql", 1, reported()}, {"mysql", 8, reported()}, {"mysql", 64, within},
		{"mariadb", 1, reported()}, {"mariadb", 8, reported()}, {"mariadb", 64, within},
	} {
		all = append(all, c.cell())
	}
	for _, c := range []withDuplicates{{"redis", 20}, {"mysql", 20}, {"mariadb", 20}} {
		all = append(all, c.cell())
	}
	for _, c := range []overRoundTrip{
		{"redis", 2}, {"redis", 8}, {"redis", 20}, {"redis", 64},
		{"mysql", 2}, {"mysql", 8}, {"mysql", 20}, {"mysql", 64},
		{"mariadb", 2}, {"mariadb", 8}, {"mariadb", 20}, {"mariadb", 64},
	} {
		all = append(all, c.cell())
	}
	for _, c := range []tail{{"redis"}, {"mysql"}, {"mariadb"}} {
		all = append(all, c.cell())
	}
	all = append(all, wrapperAlone())
	const ms = time.Millisecond
	for _, c := range []endToEnd{
		{"redis", 1, 0, reported(), 20}, {"redis", 1, 2 * ms, atLeast(0.83), 0}, {"redis", 1, 20 * ms, atLeast(0.95), 0}, {"redis", 16, 2 * ms, atLeast(0.95), 0},
		{"mysql", 1, 0, reported(), 30}, {"mysql", 1, 2 * ms, atLeast(0.65), 0}, {"mysql", 1, 20 * ms, atLeast(0.9), 0}, {"mysql", 16, 2 * ms, atLeast(0.9), 0},
		{"mariadb", 1, 0, reported(), 30}, {"mariadb", 1, 2 * ms, atLeast(0.65), 0}, {"mariadb", 1, 20 * ms, atLeast(0.9), 0}, {"mariadb", 16, 2 * ms, atLeast(0.9), 0},
	} {
		all = append(all, c.cell())
	}
	for _, c := range []paced{{"redis", 2 * ms}, {"mysql", 2 * ms}, {"mariadb", 2 * ms}} {
		all = append(all, c.cell())
	}
	return all
}
