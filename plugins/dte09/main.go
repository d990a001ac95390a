// Module dte09 computes the accounting document of a liquidation (DTE-09).
package main

import "dtegate/plugins/sdk"

func init() { sdk.Register(description, evaluate) }

func main() {}
