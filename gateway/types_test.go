package gateway

import (
	"errors"

	"dtegate/engine/record"
	"dtegate/plugins"
)

// contractText is the contract of a branch that issues all shipped types.
var contractText = func() []byte {
	learned := record.Learn(plugins.Types()...)
	text, err := OpenAPI(plugins.Types(), "en")
	if err := errors.Join(learned, err); err != nil {
		panic(err)
	}
	return text
}()
