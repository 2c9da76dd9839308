package main

import (
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2/rlog"

	"github.com/rmqdedup/rmqdedup-go/janitor"
	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/rmqtest"
	"github.com/rmqdedup/rmqdedup-go/storage/memory"
	"github.com/rmqdedup/rmqdedup-go/storage/mysql"
)

// A config is what the flags say.
type config struct {
	namesrv       []string // host:port, the hosts as IP addresses
	topic, group  string
	store         string
	migrate       bool
	janitor       string // its schedule; "" for none
	key           string
	mode          rmqdedup.Mode
	batch         int
	handlers      int
	handleTime    time.Duration
	fail          float64
	maxReconsume  int
	delayLevels   []time.Duration
	lease         time.Duration
	timeout       time.Duration
	seed          uint64
	produce       int
	duplicates    float64
	member        bool
	ledger        string
	crashAfter    int
	verbose, help bool

	run        string // tells this run from others, in names and order IDs
	ownNames   bool   // topic and group are of this run alone
	nameServer string // -namesrv as given
	inProcess  bool   // it was not
	broker     *rmqtest.Broker
	janitorLog *slog.Logger
	uncleaned  bool // the store needs a janitor, and this process has none
	modeName   string
	levels     string
}

// The values of -key.
const (
	byMessageID = "message-id"
	byOrderID   = "order-id"
)

func (c *config) flags() *flag.FlagSet {
	f := flag.NewFlagSet("order-consumer", flag.ContinueOnError)
	f.SetOutput(io.Discard) // run says what is wrong
	f.StringVar(&c.nameServer, "namesrv", "", "name servers of RocketMQ, `host:port,…` (default: a broker in this process)")
	f.StringVar(&c.topic, "topic", "", "`name` of the topic, which is made if it does not exist (default: one of this run's own)")
	f.StringVar(&c.group, "group", "", "`name` of the consumer group (default: one of this run's own)")
	f.StringVar(&c.store, "store", "memory://", "`URL` of the state table: memory://, redis://host:port/db, mysql://user:password@host:port/database, …; or a DSN, user:password@tcp(host:port)/database")
	f.BoolVar(&c.migrate, "migrate", true, "create the state table at the start, if the store has one and it is not there; -migrate=false leaves that to others")
	f.StringVar(&c.janitor, "janitor", "", "`schedule` by which a janitor clears what is past its time from a MySQL: '@every 30s', or five fields as cron has them (default: none)")
	f.StringVar(&c.key, "key", byOrderID, "`what` makes two messages the same work: message-id or order-id")
	f.StringVar(&c.modeName, "mode", "concurrent", "`mode` of the consumer: concurrent, or ordered, which handles one message a queue at a time")
	f.IntVar(&c.batch, "batch", 1, "most messages in a call of the handler, a `number` from 1 to 1024")
	f.IntVar(&c.handlers, "handlers", 20, "`number` of handlers at a time; for an ordered consumer of queues, if the topic is made")
	f.DurationVar(&c.handleTime, "handle-time", 2*time.Millisecond, "`time` that a call of the handler takes, such as 2ms")
	f.Float64Var(&c.fail, "fail", 0.05, "`share` of the handler's calls that ask for a retry, from 0 to 1")
	f.IntVar(&c.maxReconsume, "max-reconsume", -1, "`number` of times that a message comes again before it is dead-lettered; -1 for the client's default")
	f.StringVar(&c.levels, "delay-levels", "", "the broker's messageDelayLevel, `times` such as '1s 5s 10s' (default: the broker's default, and a hundredth of it in process)")
	f.DurationVar(&c.lease, "lease", rmqdedup.DefaultLease, "`time` for which an order is kept for a member that may have died, such as 30s; 2s if not given in process")
	f.DurationVar(&c.timeout, "timeout", 10*time.Minute, "`time` after which to give up, such as 5m")
	f.Uint64Var(&c.seed, "seed", 0, "`number` that the producer's choices follow from; 0 for a new one")
	f.IntVar(&c.produce, "produce", 3000, "`number` of orders to send")
	f.Float64Var(&c.duplicates, "duplicates", 0.3, "`share` of the orders that are sent again, from 0 to 1")
	f.BoolVar(&c.member, "member", false, "only consume, as a further member of another process's group, until interrupted")
	f.StringVar(&c.ledger, "ledger", "", "`file` in which all members of a group write down what they did; a new one for each run (default: in memory)")
	f.IntVar(&c.crashAfter, "crash-after", 0, "for tests: kill the process, as kill -9 does, in the handler's call of that `number`; 0 for never")
	f.BoolVar(&c.verbose, "v", false, "log everything, the client's own log too")
	return f
}

// parseFlags returns what args say, or every problem with them.
func parseFlags(args []string) (*config, error) {
	c := &config{run: strconv.FormatInt(time.Now().Unix(), 36) + strings.ToLower(rand.Text()[:4])}
	f := c.flags()
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return &config{help: true}, nil
	} else if err != nil {
		// The package says which flag; what it wants is in its usage.
		f.VisitAll(func(each *flag.Flag) {
			if strings.Contains(err.Error(), " -"+each.Name+": ") {
				err = fmt.Errorf("%w; it is: %s", err, strings.ReplaceAll(each.Usage, "`", ""))
			}
		})
		return nil, &usageError{fmt.Errorf("%w (-h lists all flags)", err)}
	}
	if err := c.checkArgs(f); err != nil {
		return nil, &usageError{err}
	}
	if err := c.check(); err != nil {
		return nil, &usageError{err}
	}
	if c.seed == 0 {
		c.seed = uint64(time.Now().UnixNano()) //nolint:gosec // any number will do
	}
	return c, nil
}

const noNameServer = "-namesrv is empty; leave it out for a broker in this process, or give the name server of a RocketMQ. To start one here, with a Redis, and use both:\n\n" + withServers

var namePattern = regexp.MustCompile(`^[%|a-zA-Z0-9_-]{1,100}$`)

// checkArgs finds what an unset variable in the command line leads to, and says it before anything that follows from it.
func (c *config) checkArgs(f *flag.FlagSet) (err error) {
	f.Visit(func(each *flag.Flag) {
		if value := each.Value.String(); err == nil && strings.HasPrefix(value, "-") && f.Lookup(value[1:]) != nil {
			err = fmt.Errorf("-%s has no value: %s follows it", each.Name, value)
		}
	})
	given := false
	f.Visit(func(each *flag.Flag) { given = given || each.Name == "namesrv" })
	switch {
	case err != nil:
	case given && c.nameServer == "":
		err = errors.New(noNameServer)
	case f.NArg() > 0:
		err = fmt.Errorf("%q is not a flag (-h lists them all)", place(f.Arg(0)))
	case !given:
		err = c.setInProcess(f)
	}
	return err
}

// check finds every problem, and completes what depends on several flags.
func (c *config) check() error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }

	for server := range strings.SplitSeq(c.nameServer, ",") {
		if c.inProcess {
			break
		}
		addr, err := resolve(strings.TrimSpace(server))
		if err != nil {
			bad("-namesrv %s: %w; give host:port, and commas between several", c.nameServer, err)
			break
		}
		c.namesrv = append(c.namesrv, addr)
	}
	c.ownNames = c.topic == "" && c.group == ""
	if c.member && (c.topic == "" || c.group == "") {
		bad("-member: give -topic and -group too, those of the process that produces")
	}
	if c.member && c.inMemory() {
		bad("-member: -store memory:// is each process's own; give one that they share, such as redis://host:port/0")
	}
	if c.topic == "" {
		c.topic = "orders-" + c.run
	}
	if c.group == "" {
		c.group = "order-group-" + c.run
	}
	name := func(flagName, value string) {
		if !namePattern.MatchString(value) {
			bad("-%s %q: give 1 to 100 letters, digits, '-' or '_'", flagName, value)
		}
	}
	name("topic", c.topic)
	name("group", c.group)
	if c.store == "" {
		bad("-store is empty; give a URL such as memory://, redis://host:port/0 or mysql://user:password@host:port/database")
	}
	if err := checkSchedule(c.janitor); err != nil {
		bad("-janitor %q: %w", c.janitor, err)
	}
	if c.key != byMessageID && c.key != byOrderID {
		bad("-key %q: give %s or %s", c.key, byMessageID, byOrderID)
	}
	switch c.modeName {
	case "concurrent":
		c.mode = rmqdedup.Concurrent
	case "ordered":
		c.mode = rmqdedup.Ordered
	default:
		bad("-mode %q: give concurrent or ordered", c.modeName)
	}
	whole := func(name string, value, from, to int) {
		if value < from || value > to {
			bad("-%s %d: give a number from %d to %d", name, value, from, to)
		}
	}
	whole("batch", c.batch, 1, 1024)
	whole("handlers", c.handlers, 1, 1000)
	whole("max-reconsume", c.maxReconsume, -1, 1000)
	whole("produce", c.produce, 1, 10_000_000)
	whole("crash-after", c.crashAfter, 0, 1_000_000_000)
	share := func(name string, value float64) {
		if !(value >= 0 && value <= 1) {
			bad("-%s %v: give a share from 0 to 1", name, value)
		}
	}
	share("fail", c.fail)
	share("duplicates", c.duplicates)
	span := func(name string, value time.Duration) {
		if value <= 0 {
			bad("-%s %v: give a time above zero, such as 30s", name, value)
		}
	}
	span("lease", c.lease)
	span("timeout", c.timeout)
	if c.handleTime < 0 {
		bad("-handle-time %v: give a time such as 2ms, or 0", c.handleTime)
	}
	var err error
	if c.delayLevels, err = parseLevels(c.levels); err != nil {
		bad("-delay-levels %q: %w; give the broker's messageDelayLevel, such as '1s 5s 10s 1m 1h'", c.levels, err)
	}
	if len(problems) > 1 {
		return fmt.Errorf("%d things are wrong\n%w", len(problems), errors.Join(problems...))
	}
	return errors.Join(problems...)
}

// checkSchedule says what is wrong with a janitor's schedule before anything is started for it.
func checkSchedule(spec string) error {
	if spec == "" {
		return nil
	}
	unused, err := memory.New(memory.Config{})
	if err != nil {
		return err
	}
	_, err = janitor.New(unused, janitor.Config{Schedule: spec})
	return err
}

// inMemory says whether the store is this process's own.
func (c *config) inMemory() bool { return strings.HasPrefix(c.store, "memory:") }

// resolve makes the host of a name server an IP address, since the client takes nothing else.
func resolve(server string) (string, error) {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return "", err
	}
	if net.ParseIP(host) != nil {
		return server, nil
	}
	found, err := net.LookupHost(host)
	if err != nil {
		return "", err
	}
	for _, ip := range found {
		if net.ParseIP(ip).To4() != nil {
			return net.JoinHostPort(ip, port), nil
		}
	}
	return net.JoinHostPort(found[0], port), nil
}

// parseLevels reads delay levels as the broker does: numbers with s, m, h or d, and blanks between them. None are nil.
func parseLevels(s string) (levels []time.Duration, err error) {
	for field := range strings.FieldsSeq(s) {
		number, days := strings.CutSuffix(field, "d")
		if days {
			number += "h"
		}
		d, err := time.ParseDuration(number)
		if err != nil {
			return nil, fmt.Errorf("%q is no time", field)
		}
		if days {
			d *= 24
		}
		if d <= 0 {
			return nil, fmt.Errorf("%q is not above zero", field)
		}
		levels = append(levels, d)
	}
	return levels, nil
}

func (c *config) keyFunc() rmqdedup.KeyFunc {
	if c.key == byMessageID {
		return rmqdedup.MessageID
	}
	return rmqdedup.JSONField("order.id")
}

func (c *config) maxReconsumeTimes() int32 {
	if c.maxReconsume == 0 {
		return rmqdedup.NoReconsume
	}
	return int32(c.maxReconsume) //nolint:gosec // at most 1000
}

// instance names a client of this process: two clients of one name would be taken for one, in the process and by the broker.
func (c *config) instance(of string) string { return "order-consumer-" + c.run + "-" + of }

// describe says what runs.
func (c *config) describe() string {
	s := fmt.Sprintf("topic %s, group %s, store %s, key %s, %v, batches of %d, %d handlers\n", c.topic, c.group, place(c.store), c.key, c.mode, c.batch, c.handlers)
	if !c.member {
		s += fmt.Sprintf("%d orders, %d of them sent again, seed %d\n", c.produce, c.sentAgain(), c.seed)
	}
	if c.uncleaned {
		s += "no janitor runs here (-janitor '@every 30s' has one): unless one runs elsewhere, what is past its time stays in the table\n"
	}
	return s
}

// place is what may be shown of a URL: its user, and what follows a question mark, may hold a password.
func place(s string) string {
	if !strings.Contains(s, ":") {
		return s
	}
	if mysql.IsDSN(s) {
		u, err := mysql.ParseURL(s)
		if err != nil {
			return "(a DSN that does not parse)"
		}
		return u.String()
	}
	u, err := url.Parse(s)
	if err != nil {
		return "(a URL that does not parse)"
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// setLogs quiets the client's log, which is a line a second, unless -v asks for it.
func setLogs(c *config, to io.Writer) {
	level := slog.LevelWarn
	if c.verbose {
		level = slog.LevelDebug
	} else {
		rlog.SetLogLevel("error")
	}
	log := func(level slog.Level) *slog.Logger {
		return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: level}))
	}
	slog.SetDefault(log(level))
	c.janitorLog = log(min(level, slog.LevelInfo)) // which has little to say, such as whether it comes by in time
}

func usage(to io.Writer) {
	fmt.Fprint(to, "order-consumer sends orders to a RocketMQ topic, some of them twice, consumes them, and says how often each succeeded.\n\n")
	f := new(config).flags()
	f.SetOutput(to)
	f.PrintDefaults()
}
