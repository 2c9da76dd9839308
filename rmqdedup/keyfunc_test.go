package rmqdedup_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
)

func TestKeyFunctions(t *testing.T) {
	m := order("17", withBody(`{"order":{"id":"A-17"}}`), func(m *primitive.MessageExt) {
		m.WithProperty("tenant", "acme ")
	})
	tests := []struct {
		name string
		key  rmqdedup.KeyFunc
		want string
	}{
		{"Keys", rmqdedup.Keys, "17"},
		{"Property", rmqdedup.Property("tenant"), "acme "},
		{"Property that is not there", rmqdedup.Property("region"), ""},
		{"JSONField", rmqdedup.JSONField("order.id"), "A-17"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.key(context.Background(), m)
			if got != tt.want || err != nil {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
	t.Run("Keys of several", func(t *testing.T) {
		m := order("17")
		m.WithKeys([]string{"17", "18"})
		if got, _ := rmqdedup.Keys(context.Background(), m); strings.TrimSpace(got) != "17 18" {
			t.Errorf("several keys are %q", got)
		}
	})
	t.Run("MessageID", func(t *testing.T) {
		if got, err := rmqdedup.MessageID(context.Background(), m); got != "" || !errors.Is(err, rmqdedup.ErrByMessageID) {
			t.Errorf("got %q, %v", got, err)
		}
	})
	t.Run("without a body or properties", func(t *testing.T) {
		for _, key := range []rmqdedup.KeyFunc{rmqdedup.Keys, rmqdedup.Property("x"), rmqdedup.JSONField("x")} {
			if got, _ := key(context.Background(), &primitive.MessageExt{}); got != "" {
				t.Errorf("an empty message has the key %q", got)
			}
		}
	})
}

func TestJSONField(t *testing.T) {
	deep := `{"a":` + strings.Repeat(`[`, 9_999) + strings.Repeat("]", 9_999) + `,"id":"x"}`
	tests := []struct {
		name, path, body, want, err string
	}{
		{name: "string", path: "id", body: `{"id":"x"}`, want: "x"},
		{name: "nested", path: "order.id", body: ` { "order" : { "id" : "x" } } `, want: "x"},
		{name: "in an array", path: "items.1.sku", body: `{"items":[{"sku":"a"},{"sku":"b"}]}`, want: "b"},
		{name: "array at the top", path: "0.id", body: `[{"id":7}]`, want: "7"},
		{name: "name that is a number", path: "o.0", body: `{"o":{"0":"x"}}`, want: "x"},
		{name: "number", path: "id", body: `{"id":42}`, want: "42"},
		{name: "number and string alike", path: "id", body: `{"id":"42"}`, want: "42"},
		{name: "number by its text", path: "id", body: `{"id":42.0}`, want: "42.0"},
		{name: "number above 2^53", path: "id", body: `{"id":9007199254740993}`, want: "9007199254740993"},
		{name: "number with an exponent", path: "id", body: `{"id":1e400}`, want: "1e400"},
		{name: "negative number", path: "id", body: `{"id":-0}`, want: "-0"},
		{name: "escapes", path: "id", body: `{"id":"a\n\"\u00e9\ud83d\ude00"}`, want: "a\n\"é\U0001f600"},
		{name: "escapes in the name", path: "id", body: `{"\u0069d":"x"}`, want: "x"},
		{name: "accents in the name", path: "größe.ß", body: `{"größe":{"ß":"x"}}`, want: "x"},
		{name: "blank in the name", path: "order id", body: `{"order id":"x"}`, want: "x"},
		{name: "first of two", path: "id", body: `{"id":"first","id":"second"}`, want: "first"},
		{name: "first of two objects", path: "a.b", body: `{"a":{"b":1},"a":{"b":2}}`, want: "1"},
		{name: "only in the second object", path: "a.b", body: `{"a":{"x":1},"a":{"b":2}}`, err: "no field"},
		{name: "deep but allowed", path: "id", body: deep, want: "x"},

		{name: "empty string", path: "id", body: `{"id":""}`},
		{name: "null", path: "id", body: `{"id":null}`, err: "neither a string nor a number"},
		{name: "true", path: "id", body: `{"id":true}`, err: "neither a string nor a number"},
		{name: "object", path: "id", body: `{"id":{"x":1}}`, err: "neither a string nor a number"},
		{name: "array", path: "id", body: `{"id":["x"]}`, err: "neither a string nor a number"},
		{name: "missing", path: "id", body: `{"ID":"x"}`, err: `no field "id"`},
		{name: "below a string", path: "id.x", body: `{"id":"x"}`, err: "no field"},
		{name: "in the text of a string", path: "id.x", body: `{"id":"{\"x\":1}"}`, err: "no field"},
		{name: "string at the top", path: "0", body: `"[1]"`, err: "no field"},
		{name: "index with a nought before it", path: "items.01", body: `{"items":[1,2]}`, err: "no field"},
		{name: "negative index", path: "items.-1", body: `{"items":[1,2]}`, err: "no field"},
		{name: "index beyond 64 bits", path: "items.18446744073709551617", body: `{"items":[1,2]}`, err: "no field"},
		{name: "beyond an array", path: "items.2", body: `{"items":[1,2]}`, err: "no field"},
		{name: "no body", path: "id", err: "not valid JSON"},
		{name: "no JSON", path: "id", body: `id=17`, err: "not valid JSON"},
		{name: "cut short", path: "id", body: `{"id":"x"`, err: "not valid JSON"},
		{name: "something behind it", path: "id", body: `{"id":"x"} {}`, err: "not valid JSON"},
		{name: "half a surrogate pair", path: "id", body: `{"id":"\ud83d"}`, err: "broken"},
		{name: "another half", path: "id", body: `{"id":"x\ude00"}`, err: "broken"},
		{name: "nested too deep", path: "a", body: strings.Repeat(`{"a":`, 10_001) + "1" + strings.Repeat("}", 10_001), err: "not valid JSON"},
		{name: "nested without end", path: "a", body: strings.Repeat(`[`, 5_000_000), err: "not valid JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := rmqdedup.JSONField(tt.path)(context.Background(), order("17", withBody(tt.body)))
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("the error is %v, want one with %q", err, tt.err)
			}
		})
	}
}

// Paths are names, not queries: what gjson gives a meaning to is a character like any other.
func TestJSONFieldTakesPathsLiterally(t *testing.T) {
	for _, name := range []string{
		"#", "*", "?", "|", "@this", "@reverse", "!x", "#(a==1)", `\`, `a\`, "{a,b}", "[a]", `"`, "a*", "a?c", "~true", "<", ">", "%", "=", "$", "(", ":0", "..", "/", "~",
	} {
		if strings.Contains(name, ".") {
			continue // a dot always divides
		}
		body, err := json.Marshal(map[string]any{"a": "other", "abc": "other", name: map[string]any{name: "right"}})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := rmqdedup.JSONField(name+"."+name)(context.Background(), order("1", withBody(string(body)))); got != "right" || err != nil {
			t.Errorf("path part %q: got %q, %v", name, got, err)
		}
		without := order("1", withBody(`{"a":"other","abc":{"abc":"other"},"list":["other"]}`))
		if got, err := rmqdedup.JSONField(name)(context.Background(), without); got != "" || err == nil {
			t.Errorf("path %q, which is not there: got %q, %v", name, got, err)
		}
		list := order("1", withBody(`["other",["other"]]`))
		if got, err := rmqdedup.JSONField(name)(context.Background(), list); got != "" || err == nil {
			t.Errorf("path %q into an array: got %q, %v", name, got, err)
		}
	}
}

func TestJSONFieldRefusesEmptyParts(t *testing.T) {
	for _, path := range []string{"", ".", "a.", ".a", "a..b"} {
		func() {
			defer func() {
				if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), strconv.Quote(path)) {
					t.Errorf("JSONField(%q) panics with %v", path, p)
				}
			}()
			rmqdedup.JSONField(path)
		}()
	}
}

// FuzzJSONField checks JSONField against encoding/json: what it returns is what stands there first, as a string or by a number's text; and it
// finds all of these but strings in which U+FFFD may stand for a broken escape.
func FuzzJSONField(f *testing.F) {
	for _, body := range []string{
		`{"id":"x"}`, `{"id":42.0}`, `{"a":{"id":1}}`, `{"a":[{"id":"x"}]}`, `[1,[2,"3"]]`, `{"a":{"x":1},"a":{"b":2}}`, `{"id":"\ud800"}`, `{"id":"\ufffd"}`, `{"":1}`,
		"{\"id\":\"\xff\"}", `{"\u0061":"\u0062"}`, `{"#":1,"*":2,"a|b":3,"@this":4}`, `null`, `"x"`, `{"00":1,"0":2}`, `{"a":{"a":{"a":[]}}}`,
	} {
		for _, path := range []string{"id", "a.id", "a.0.id", "0", "1.1", "a.b", "#", "@this", "a|b", "*", "00", "a.a.a.0"} {
			f.Add(path, body)
		}
	}
	f.Fuzz(func(t *testing.T, path, body string) {
		for part := range strings.SplitSeq(path, ".") {
			if part == "" {
				return // a programming error, which panics
			}
		}
		got, err := rmqdedup.JSONField(path)(context.Background(), order("1", withBody(body)))
		want, there := firstAt(t, []byte(body), strings.Split(path, "."))
		if !json.Valid([]byte(body)) {
			there = false
		}
		if err != nil && got != "" {
			t.Fatalf("both a value and an error: %q, %v", got, err)
		}
		if !utf8.ValidString(body) || !utf8.ValidString(path) {
			return // encoding/json would replace what is not UTF-8; that it is kept is tested elsewhere
		}
		broken := strings.ContainsRune(want, utf8.RuneError)
		switch {
		case !there && err == nil:
			t.Errorf("path %q in %s: got %q, but nothing is there", path, body, got)
		case there && err != nil && !broken:
			t.Errorf("path %q in %s: %v, but %q is there", path, body, err, want)
		case there && err == nil && got != want:
			t.Errorf("path %q in %s: got %q, want %q", path, body, got, want)
		}
	})
}

// firstAt is the string or number at a path, where names that stand twice are taken the first time.
func firstAt(t *testing.T, body []byte, path []string) (value string, ok bool) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	token, err := d.Token()
	if err != nil {
		return "", false
	}
	if len(path) == 0 {
		switch v := token.(type) {
		case string:
			return v, true
		case json.Number:
			return v.String(), true
		}
		return "", false
	}
	delim, nested := token.(json.Delim)
	if !nested {
		return "", false
	}
	for i := 0; d.More(); i++ {
		name := strconv.Itoa(i)
		if delim == '{' {
			token, err := d.Token()
			if err != nil {
				return "", false
			}
			name, _ = token.(string)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return "", false
		}
		if name == path[0] {
			return firstAt(t, raw, path[1:])
		}
	}
	return "", false
}
