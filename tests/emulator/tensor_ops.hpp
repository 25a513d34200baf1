#pragma once
#include "machine.hpp"
