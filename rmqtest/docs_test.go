package rmqtest_test

import (
	"os"
	"strings"
	"testing"
)

// The page on testing shows the example as it is run here.
func TestDocsShowTheExample(t *testing.T) {
	page, err := os.ReadFile("../docs/testing.md")
	must(t, err)
	source, err := os.ReadFile("wrapped_example_test.go")
	must(t, err)
	_, shown, ok := strings.Cut(string(page), "```go\n")
	shown, _, closed := strings.Cut(shown, "```\n")
	if !ok || !closed || shown != strings.Replace(string(source), "package rmqtest_test", "package shop_test", 1) {
		t.Error("docs/testing.md does not show wrapped_example_test.go as it is")
	}
}
