// What scripts/clients.sh builds here: h2spec, the conformance tests of HTTP/2, in the version that go.mod pins.

//go:build tools

package tools

import _ "github.com/summerwind/h2spec/cmd/h2spec"
