package redis

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
)

//go:embed scripts/*.lua
var sources embed.FS

// A script is what the server runs for one request. It has no shebang, so that Redis judges each of its commands, and not the script as a
// whole, at the memory limit: renewals and releases go on there.
type script struct {
	text string
	sha  any // the string that EVALSHA takes, as an argument
}

// load puts a script together. What stands before record.lua is for the usual case, and does without all that.
func load(names ...string) *script {
	var text []byte
	for _, file := range names {
		part, err := sources.ReadFile("scripts/" + file + ".lua")
		if err != nil {
			panic(err) // the files are part of the program
		}
		text = append(text, part...)
	}
	sum := sha1.Sum(text)
	return &script{text: string(text), sha: hex.EncodeToString(sum[:])}
}

var (
	acquireScript      = load("record", "acquire")
	renewScript        = load("record", "renew")
	completeScript     = load("complete_own", "record", "complete")
	completeManyScript = load("complete_many")
	releaseScript      = load("record", "release")
	abandonScript      = load("record", "abandon")
	lookupScript       = load("record", "lookup")
	forgetScript       = load("record", "forget")
)
