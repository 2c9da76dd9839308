package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every ready-made fault of package rmqtest is part of a story: its method is used by a test of this package, or by something that a test uses.
// A fault is what the package's documentation lists as one, and what is in its file of faults.
func TestEveryFaultIsInAStory(t *testing.T) {
	faults := documentedFaults(t)
	for _, file := range parse(t, "../../rmqtest/faults.go") {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.IsExported() && !faults[f.Name.Name] {
				t.Errorf("%s is in faults.go, and not in the package's documentation of faults", f.Name.Name)
			}
		}
	}
	used := usedByTests(parse(t, "*_test.go"))
	for _, fault := range slices.Sorted(maps.Keys(faults)) {
		if !used[fault] {
			t.Errorf("no story uses %s", fault)
		}
	}
}

// documentedFaults are the methods that the section on faults refers to.
func documentedFaults(t *testing.T) map[string]bool {
	t.Helper()
	doc, err := os.ReadFile("../../rmqtest/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(doc), "\n// # Faults\n")
	section, _, _ = strings.Cut(section, "\n// # ")
	faults := make(map[string]bool)
	for _, m := range regexp.MustCompile(`\[Broker\.(\w+)\]`).FindAllStringSubmatch(section, -1) {
		faults[m[1]] = true
	}
	if len(faults) == 0 {
		t.Fatal("the documentation of package rmqtest has no section on faults")
	}
	return faults
}

func parse(t *testing.T, pattern string) (files []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no files %s (%v)", pattern, err)
	}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// usedByTests are the names that tests use, and those that the functions of these names use, and so on.
func usedByTests(files []*ast.File) map[string]bool {
	uses, todo := make(map[string][]string), []string{}
	for _, file := range files {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if strings.HasPrefix(f.Name.Name, "Test") {
				todo = append(todo, f.Name.Name)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if of, ok := n.X.(*ast.Ident); !ok || of.Name != "rmqtest" { // a type or a function of that package is no fault
						uses[f.Name.Name] = append(uses[f.Name.Name], n.Sel.Name)
					}
				case *ast.CallExpr:
					if called, ok := n.Fun.(*ast.Ident); ok {
						uses[f.Name.Name] = append(uses[f.Name.Name], called.Name)
					}
				}
				return true
			})
		}
	}
	used := make(map[string]bool)
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		for _, next := range uses[name] {
			if !used[next] {
				used[next] = true
				todo = append(todo, next)
			}
		}
	}
	return used
}
