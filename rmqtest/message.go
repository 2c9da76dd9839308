package rmqtest

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Properties that the broker reads or writes.
const (
	propUniqueKey  = "UNIQ_KEY"          // the client's ID of a single message
	propOrigin     = "ORIGIN_MESSAGE_ID" // the first copy's ID, from the first send-back on
	propRetryTopic = "RETRY_TOPIC"       // the topic before %RETRY%group
	propDelay      = "DELAY"             // the delay level
	propRealTopic  = "REAL_TOPIC"        // where a delayed message goes
	propRealQueue  = "REAL_QID"
	propWait       = "WAIT"
	propTags       = "TAGS"
	propRegion     = "MSG_REGION"
	propTrace      = "TRACE_ON"
	propCluster    = "CLUSTER"
)

const (
	flagCompressed = 1    // of SysFlag: the body is zlib-compressed
	flagsIPv6      = 0x30 // of SysFlag: the record's hosts are 16 bytes long, which ours never are

	recordMagic = 0xDAA320A7
	recordFixed = 91 // bytes of a record beside body, topic and properties

	maxBody       = 4 << 20
	maxTopic      = 127                 // one byte of length, and the client reads no other form of record
	maxProperties = math.MaxInt16 - 512 // what delays and retries add fits beside them
)

var errMessage = errors.New("illegal message")

// A Message is one record as the broker holds it.
type Message struct {
	Topic           string
	QueueID         int
	QueueOffset     int64
	CommitLogOffset int64 // unique in its broker
	Flag            int32
	SysFlag         int32
	ReconsumeTimes  int32 // 0 when it was sent, then one more at every send-back
	BornTime        time.Time
	BornHost        netip.AddrPort
	StoreTime       time.Time
	StoreHost       netip.AddrPort
	Body            []byte // as it was sent: compressed by the client from 4 KiB on, see Content
	Properties      map[string]string
}

// OffsetID is the ID that the broker gives the record: it tells its host and its commit log offset.
func (m Message) OffsetID() string {
	return fmt.Sprintf("%X%016X", appendHost(nil, m.StoreHost), uint64(m.CommitLogOffset))
}

// ID is what the client shows as MsgId: the producer's UNIQ_KEY, or else the OffsetID, which is another one at every
// retry.
func (m Message) ID() string {
	if id := m.Properties[propUniqueKey]; id != "" {
		return id
	}
	return m.OffsetID()
}

// FirstID is the ID that stays through all retries: UNIQ_KEY, else ORIGIN_MESSAGE_ID, else the OffsetID.
func (m Message) FirstID() string {
	if id := m.Properties[propOrigin]; id != "" && m.Properties[propUniqueKey] == "" {
		return id
	}
	return m.ID()
}

// Content is the body as its producer gave it to the client.
func (m Message) Content() ([]byte, error) {
	if m.SysFlag&flagCompressed == 0 {
		return m.Body, nil
	}
	r, err := zlib.NewReader(bytes.NewReader(m.Body))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, 64<<20))
}

func (m Message) clone() Message {
	m.Body, m.Properties = bytes.Clone(m.Body), maps.Clone(m.Properties)
	return m
}

// check says whether the message can be stored and read back by the client, once its topic is known to be one.
func (m *Message) check() error {
	if len(m.Body) > maxBody {
		return fmt.Errorf("%w: a body of %d bytes, the most is %d", errMessage, len(m.Body), maxBody)
	}
	if n := len(encodeProperties(m.Properties)); n > maxProperties {
		return fmt.Errorf("%w: properties of %d bytes, the most is %d", errMessage, n, maxProperties)
	}
	return nil
}

// size is how many bytes appendRecord appends.
func (m *Message) size() int {
	return recordFixed + len(m.Body) + len(m.Topic) + len(encodeProperties(m.Properties))
}

// appendRecord appends the record in the form in which a pull's answer and Consume carry it. The message must have
// passed check: the client steps by the lengths in here and dies of a wrong one.
func appendRecord(buf []byte, m *Message) []byte {
	be, props := binary.BigEndian, encodeProperties(m.Properties)
	buf = be.AppendUint32(buf, uint32(m.size()))
	buf = be.AppendUint32(buf, recordMagic)
	buf = be.AppendUint32(buf, crc32.ChecksumIEEE(m.Body)&math.MaxInt32)
	buf = be.AppendUint32(buf, uint32(m.QueueID))
	buf = be.AppendUint32(buf, uint32(m.Flag))
	buf = be.AppendUint64(buf, uint64(m.QueueOffset))
	buf = be.AppendUint64(buf, uint64(m.CommitLogOffset))
	buf = be.AppendUint32(buf, uint32(m.SysFlag))
	buf = be.AppendUint64(buf, uint64(m.BornTime.UnixMilli()))
	buf = appendHost(buf, m.BornHost)
	buf = be.AppendUint64(buf, uint64(m.StoreTime.UnixMilli()))
	buf = appendHost(buf, m.StoreHost)
	buf = be.AppendUint32(buf, uint32(m.ReconsumeTimes))
	buf = be.AppendUint64(buf, 0) // prepared transaction
	buf = be.AppendUint32(buf, uint32(len(m.Body)))
	buf = append(buf, m.Body...)
	buf = append(buf, byte(len(m.Topic)))
	buf = append(buf, m.Topic...)
	buf = be.AppendUint16(buf, uint16(len(props)))
	return append(buf, props...)
}

// appendHost appends four address bytes, zero unless it is an IPv4 address, and four of the port.
func appendHost(buf []byte, h netip.AddrPort) []byte {
	var ip [4]byte
	if h.Addr().Is4() {
		ip = h.Addr().As4()
	}
	return binary.BigEndian.AppendUint32(append(buf, ip[:]...), uint32(h.Port()))
}

// Properties travel as key 0x01 value 0x02, repeated.
const nameEnd, itemEnd = "\x01", "\x02"

func encodeProperties(props map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(props)) {
		b.WriteString(name + nameEnd + props[name] + itemEnd)
	}
	return b.String()
}

// decodeProperties skips what is not a name and a value, as the client does.
func decodeProperties(s string) map[string]string {
	props := make(map[string]string)
	for item := range strings.SplitSeq(s, itemEnd) {
		if name, value, ok := strings.Cut(item, nameEnd); ok && !strings.Contains(value, nameEnd) {
			props[name] = value
		}
	}
	return props
}

// decodeBatch reads the members of a batch:
//
//	int32 total | 8 bytes unused | int32 flag | int32 body length | body | int16 properties length | properties
func decodeBatch(body []byte) ([]*Message, error) {
	const fixed = 22
	var members []*Message
	for len(body) > 0 {
		if len(body) < fixed {
			return nil, fmt.Errorf("%w: a batch that ends in the middle of a member", errMessage)
		}
		be, n := binary.BigEndian, int64(int32(binary.BigEndian.Uint32(body[16:])))
		if n < 0 || fixed+n > int64(len(body)) {
			return nil, fmt.Errorf("%w: a batch member's body of %d bytes", errMessage, n)
		}
		props := int64(int16(be.Uint16(body[20+n:])))
		end := fixed + n + props
		if props < 0 || end > int64(len(body)) {
			return nil, fmt.Errorf("%w: a batch member's properties of %d bytes", errMessage, props)
		}
		members = append(members, &Message{
			Flag:       int32(be.Uint32(body[12:])),
			Body:       body[20 : 20+n : 20+n],
			Properties: decodeProperties(string(body[fixed+n : end])),
		})
		body = body[end:]
	}
	if len(members) == 0 {
		return nil, fmt.Errorf("%w: an empty batch", errMessage)
	}
	return members, nil
}
