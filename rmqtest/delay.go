package rmqtest

import (
	"container/heap"
	"strconv"
	"time"
)

// A delayed message waits for its time outside its queue.
type delayed struct {
	*Message
	topic   string
	queueID int
	due     time.Time
}

// A schedule is a heap by due time; of two with the same time the one that was stored first comes first.
type schedule []delayed

func (s schedule) Len() int { return len(s) }
func (s schedule) Less(i, j int) bool {
	if s[i].due.Equal(s[j].due) {
		return s[i].CommitLogOffset < s[j].CommitLogOffset
	}
	return s[i].due.Before(s[j].due)
}
func (s schedule) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s *schedule) Push(d any)   { *s = append(*s, d.(delayed)) }
func (s *schedule) Pop() any {
	last := len(*s) - 1
	d := (*s)[last]
	(*s)[last] = delayed{}
	*s = (*s)[:last]
	return d
}

func (m *Message) delayLevel() int {
	level, _ := strconv.Atoi(m.Properties[propDelay])
	return level
}

// delay puts a record aside until its level's time is over. Its queue offset is the one in its level's own queue, and
// it gets another one, as well as another commit log offset, when it comes out. b.mu is held.
func (b *Broker) delay(m *Message, topic string, queueID, level int) {
	level = min(level, len(b.cfg.DelayLevels))
	m.Properties[propDelay] = strconv.Itoa(level)
	m.Properties[propRealTopic] = topic
	m.Properties[propRealQueue] = strconv.Itoa(queueID)
	m.QueueID, m.QueueOffset = level-1, b.levelEnds[level]
	b.levelEnds[level]++
	b.stamp(m)
	heap.Push(&b.schedule, delayed{m, topic, queueID, time.Now().Add(b.cfg.DelayLevels[level-1])})
	b.armSchedule()
	b.changed()
}

// armSchedule sets the timer to the next delayed message. b.mu is held.
func (b *Broker) armSchedule() {
	if len(b.schedule) > 0 && !b.closed {
		b.timer.Reset(time.Until(b.schedule[0].due))
	}
}

// deliverDue is the timer's function.
func (b *Broker) deliverDue() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.release(time.Now())
	b.armSchedule()
}

// release appends what is due by then. b.mu is held.
func (b *Broker) release(by time.Time) (n int) {
	for len(b.schedule) > 0 && !b.schedule[0].due.After(by) {
		d := heap.Pop(&b.schedule).(delayed)
		if b.queueOf(d.topic, d.queueID) == nil {
			continue // the topic was deleted meanwhile
		}
		m := d.clone()
		b.append(&m, d.topic, d.queueID)
		n++
	}
	return n
}

// ReleaseDelayed hands out every delayed message now, whatever its level, and says how many there were: a test need not
// wait for them.
func (b *Broker) ReleaseDelayed() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := time.Now()
	for _, d := range b.schedule {
		if d.due.After(last) {
			last = d.due
		}
	}
	return b.release(last)
}
