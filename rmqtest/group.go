package rmqtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A member is one client of a consumer group, for as long as its connection stands and its heart beats name the group.
type member struct {
	id           string
	conn         *conn
	broadcasting bool
	subs         map[string]subscription // by topic
}

// An identity is what stays of a member when its connection ends.
type identity struct{ group, client string }

type subscription struct {
	Topic          string `json:"topic"`
	Expression     string `json:"subString"`
	ExpressionType string `json:"expressionType"`
}

type consumerData struct {
	Group         string         `json:"groupName"`
	Model         string         `json:"messageModel"`
	Subscriptions []subscription `json:"subscriptionDataSet"`
}

// heartBeat makes the client a member of the groups that it names and of no other.
func (b *Broker) heartBeat(c *conn, r *Request) answer {
	var beat struct {
		Client    string         `json:"clientID"`
		Consumers []consumerData `json:"consumerDataSet"`
	}
	if err := json.Unmarshal(r.Body, &beat); err != nil {
		return fail(SystemError, err)
	}
	if beat.Client == "" {
		return fail(SystemError, errors.New("a heart beat without clientID"))
	}
	c.client = beat.Client
	named, groups := make(map[string]bool), make(map[string]bool)
	for _, data := range beat.Consumers {
		named[data.Group] = true
		if b.join(c, data) {
			groups[data.Group] = true
		}
	}
	b.drop(groups, func(group string, m *member) bool { return m.id == beat.Client && !named[group] })
	b.changed()
	return answer{told: b.toTell(groups)}
}

// join makes a client a member of a group, if it is none. b.mu is held.
func (b *Broker) join(c *conn, data consumerData) (joined bool) {
	m := &member{id: c.client, conn: c, broadcasting: data.Model == "BROADCASTING", subs: make(map[string]subscription)}
	for _, s := range data.Subscriptions {
		m.subs[s.Topic] = s
	}
	members := b.members[data.Group]
	if members == nil {
		members = make(map[string]*member)
		b.members[data.Group] = members
	}
	old := members[m.id]
	members[m.id] = m
	if old != nil && old.conn == c {
		return false
	}
	if who := (identity{data.Group, m.id}); !b.known[who] {
		b.known[who] = true
		c.balance(data.Group).expect(m, 1) // a consumer's start has one of its own
	}
	if checkTopic(RetryTopic(data.Group)) == nil {
		b.topicFor(RetryTopic(data.Group), 1)
	}
	return true
}

// drop removes members and adds the groups that they leave to groups. b.mu is held.
func (b *Broker) drop(groups map[string]bool, which func(group string, m *member) bool) {
	for group, members := range b.members {
		before := len(members)
		maps.DeleteFunc(members, func(_ string, m *member) bool { return which(group, m) })
		if len(members) < before {
			groups[group] = true
		}
	}
}

// leave ends the memberships that came over a connection.
func (b *Broker) leave(c *conn) {
	b.mu.Lock()
	groups := make(map[string]bool)
	b.drop(groups, func(_ string, m *member) bool { return m.conn == c })
	told := b.toTell(groups)
	b.changed()
	b.mu.Unlock()
	tell(told)
}

// toTell collects whom to tell of changed groups, once b.mu, which is held here, is free.
func (b *Broker) toTell(groups map[string]bool) map[*conn]string {
	told := make(map[*conn]string)
	for group := range groups {
		for _, m := range b.members[group] {
			told[m.conn] = group
		}
	}
	for c := range told {
		b.expectBalances(c)
	}
	return told
}

// askStranger makes a client that pulls for a group without being its member join it: after a cut or a restart it does
// not know that it must, until its next heart beat. b.mu is held.
func (b *Broker) askStranger(c *conn, group string) {
	for _, m := range b.members[group] {
		if m.conn == c {
			return
		}
	}
	if !c.asked[group] {
		c.asked[group] = true
		c.tasks.Go(func() { tell(map[*conn]string{c: group}) })
	}
}

// listMembers answers with the group's members as the asking one is to see them.
func (b *Broker) listMembers(c *conn, r *Request) answer {
	c.balance(r.Group).asked++
	b.changed()
	ids := b.view(r.Group).seenBy(c.client, b.memberIDs(r.Group))
	if len(ids) == 0 {
		return fail(SystemError, fmt.Errorf("group %s has no member", r.Group))
	}
	return jsonAnswer(map[string][]string{"consumerIdList": ids})
}

// memberIDs is in order, as in all clients. b.mu is held.
func (b *Broker) memberIDs(group string) []string {
	return slices.Sorted(maps.Keys(b.members[group]))
}

// member finds a group's member by its client ID or by its instance name. b.mu is held.
func (b *Broker) member(group, name string) (*member, error) {
	for id, m := range b.members[group] {
		if isNamed(id, name) {
			return m, nil
		}
	}
	return nil, fmt.Errorf("rmqtest: group %s has no member %q, only %q", group, name, b.memberIDs(group))
}

// filter returns what a group's subscription lets through. b.mu is held.
func (b *Broker) filter(group, topic string) (func(*Message) bool, error) {
	all := func(*Message) bool { return true }
	for _, m := range b.members[group] {
		sub, ok := m.subs[topic]
		if !ok {
			continue
		}
		if sub.ExpressionType != "" && sub.ExpressionType != "TAG" {
			return nil, fmt.Errorf("filtering by %s is not supported", sub.ExpressionType)
		}
		if sub.Expression == "" || sub.Expression == "*" {
			return all, nil
		}
		var tags []string
		for tag := range strings.SplitSeq(sub.Expression, "||") {
			tags = append(tags, strings.TrimSpace(tag))
		}
		return func(m *Message) bool { return slices.Contains(tags, m.Properties[propTags]) }, nil
	}
	return all, nil
}
