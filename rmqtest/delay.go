package rmqtest

import (
	"slices"
	"strconv"
	"time"
)

// A delayed message waits for its time outside its queue.
type delayed struct {
	*Message
	queueID int // where it will go; its own is the one of its level's own queue
	due     time.Time
}

func (m *Message) delayLevel() int {
	level, _ := strconv.Atoi(m.Properties[propDelay])
	return level
}

// delay puts a record aside until its level's time is over. Its queue offset is the one in its level's own queue, and
// it gets another one, as well as another commit log offset, when it comes out. b.mu is held.
func (b *Broker) delay(m *Message, queueID, level int) {
	level = min(level, len(b.cfg.DelayLevels))
	m.Properties[propDelay] = strconv.Itoa(level)
	m.Properties[propRealTopic] = m.Topic
	m.Properties[propRealQueue] = strconv.Itoa(queueID)
	m.QueueID, m.QueueOffset = level-1, b.levelEnds[level]
	b.levelEnds[level]++
	b.stamp(m)
	d := delayed{m, queueID, time.Now().Add(b.cfg.DelayLevels[level-1])}
	i := len(b.schedule) // behind those with the same time, which were stored before it
	for i > 0 && d.due.Before(b.schedule[i-1].due) {
		i--
	}
	b.schedule = slices.Insert(b.schedule, i, d)
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
		d := b.schedule[0]
		b.schedule = slices.Delete(b.schedule, 0, 1)
		if b.queueOf(d.Topic, d.queueID) == nil {
			continue // the topic was deleted meanwhile
		}
		m := d.clone()
		b.append(&m, d.Topic, d.queueID)
		n++
	}
	return n
}

// ReleaseDelayed hands out every delayed message now, whatever its level, and says how many there were: a test need not
// wait for them.
func (b *Broker) ReleaseDelayed() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.schedule) == 0 {
		return 0
	}
	return b.release(b.schedule[len(b.schedule)-1].due)
}
